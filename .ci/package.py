"""Builds the package, installs it into a clean environment beside `requests`, and uses it from there.

`make package` runs this. Everything happens in a temporary folder, from a copy of the checkout's own files, so that
nothing that an earlier build or an editable install left behind gets into the package. What must hold:

- the build warns of nothing;
- the wheel holds every file of `normalizer/`, `providers/` and `schemas/` and nothing else, and what is built from the
  sdist holds the same bytes;
- the command `transcript-normalizer` and the library work where `requests` is installed too. It brings
  charset-normalizer, which owns the command `normalizer`;
- no file of the checkout is used.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Final
from zipfile import ZipFile

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# folder of the checkout -> where it is in the wheel
PLACES: Final = {
    "normalizer": "normalizer",
    "providers": "normalizer/providers",
    "schemas": "normalizer/schemas",
}
# What else an sdist holds: our pages, and what the build writes.
PAGES: Final = {"LICENSE", "README.md", "CHANGELOG.md", "MANIFEST.in", "pyproject.toml"}
WRITTEN: Final = {"PKG-INFO", "setup.cfg", "transcript_normalizer.egg-info"}

# Runs in the clean environment, in a folder that holds nothing but a session.
USE: Final = """
import json, pkgutil, sys
from importlib import import_module
from pathlib import Path

import normalizer
from normalizer import providers, registry, schemas

repaired = normalizer.repair(Path("session.jsonl"))
assert repaired.request == json.loads(Path("session.repaired.json").read_bytes()), "library and command differ"
violations = normalizer.check(repaired.request, repaired.to, context={"history": True})
assert not [found for found in violations if found.severity == "reject"]
assert repaired.findings and repaired.adjustments

for module in pkgutil.walk_packages(providers.__path__, "normalizer.providers."):
    import_module(module.name)
assert all(registry.provider(target).rules for target in registry.targets())
assert all(schemas.schema(name)["$schema"] for name in ("fact", "transcript", "report"))
assert (Path(normalizer.__file__).parent / "py.typed").is_file()

ours = {name: str(module.__file__) for name, module in sys.modules.items() if name.partition(".")[0] == "normalizer"}
strangers = {name: file for name, file in ours.items() if not Path(file).is_relative_to(sys.prefix)}
assert not strangers, f"not from the installed package: {strangers}"
print(f"{len(ours)} modules, all from the installed package")
"""


def main() -> None:
    """Build, compare, install, use. Ends with an error at the first thing that does not hold."""
    with tempfile.TemporaryDirectory(prefix="package-") as name:
        place = Path(name).resolve()
        source = place / "source"
        copy_of_the_checkout(source)
        sdist = build(source, "--sdist", place / "dist")
        wheel = build(source, "--wheel", place / "dist")
        with tarfile.open(sdist) as archive:
            archive.extractall(place / "unpacked", filter="data")
        (unpacked,) = (place / "unpacked").iterdir()
        held = {path.name for path in unpacked.iterdir()}
        demand(held == PAGES | WRITTEN | PLACES.keys(), f"the sdist holds {sorted(held)}")
        again = build(unpacked, "--wheel", place / "again")
        compare(wheel, again, source)
        use(install(wheel, place / "environment"), place / "elsewhere")
    print("package: all good")


def demand(holds: bool, otherwise: str) -> None:
    """End the run, unless something holds."""
    if not holds:
        sys.exit(f"package: {otherwise}")


def run(*command: object, cwd: Path, **environment: str) -> str:
    """What a command prints, on both channels. Ends the run where it fails."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**clean, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    demand(done.returncode == 0, f"{command[0]} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


def copy_of_the_checkout(source: Path) -> None:
    """The files that belong to the repository, tracked or about to be, links as links."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).exists():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, source / name, follow_symlinks=False)


def build(source: Path, kind: str, out: Path) -> Path:
    """Build one artefact by what `make` installed; a warning is a failure."""
    said = run(
        sys.executable, "-m", "build", "--no-isolation", kind, "--outdir", out, source, cwd=source.parent
    )
    warnings = [line for line in said.splitlines() if "warning" in line.lower() or "deprecat" in line.lower()]
    demand(not warnings, "the build warns:\n" + "\n".join(warnings))
    (made,) = out.glob("*.tar.gz" if kind == "--sdist" else "*.whl")
    return made


def compare(wheel: Path, again: Path, source: Path) -> None:
    """The wheel has all files of the packages, only them, and is what its sdist builds too."""
    first, second = contents(wheel), contents(again)
    differ = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
    demand(not differ, f"the wheel of the sdist differs from that of the checkout: {differ}")
    wanted = {
        f"{inside}/{path.relative_to(source / folder).as_posix()}"
        for folder, inside in PLACES.items()
        for path in (source / folder).rglob("*")
        if path.is_file()
    }
    held = {name for name in first if ".dist-info/" not in name}
    demand(held == wanted, f"the wheel lacks {sorted(wanted - held)}, and has beside {sorted(held - wanted)}")


def contents(wheel: Path) -> dict[str, bytes]:
    """Name -> bytes of every file of a wheel."""
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def install(wheel: Path, environment: Path) -> Path:
    """A clean environment with the wheel and `requests`, of the versions that are pinned; its folder of programs."""
    run(sys.executable, "-m", "venv", "--without-pip", environment, cwd=environment.parent)
    programs = environment / "bin"
    pip = sys.executable, "-m", "pip", "--python", programs / "python", "install", "--quiet"
    run(*pip, "-c", ROOT / "constraints.txt", wheel, "requests", cwd=environment.parent)
    return programs


def use(programs: Path, folder: Path) -> None:
    """Use the command and the library from a folder that is not the checkout."""
    folder.mkdir()
    shutil.copy2(ROOT / "fixtures" / "demo" / "session.jsonl", folder)
    way = f"{programs}{os.pathsep}{os.defpath}"
    python, command = programs / "python", programs / PROJECT["name"]
    for program in ((command,), (python, "-m", "normalizer")):
        said = run(*program, "--version", cwd=folder, PATH=way).strip()
        demand(said == PROJECT["version"], f"{program}: version {said!r}, not {PROJECT['version']!r}")
    other = run(programs / "normalizer", "--version", cwd=folder, PATH=way)
    demand("charset" in other.lower(), f"the command `normalizer` is not charset-normalizer's: {other!r}")
    print(run(command, "repair", "session.jsonl", cwd=folder, PATH=way).splitlines()[0])
    demand((folder / "session.repaired.json").is_file(), "the command wrote no request")
    print(run(python, "-c", USE, cwd=folder, PATH=way), end="")


if __name__ == "__main__":
    main()
