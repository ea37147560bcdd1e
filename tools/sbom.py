"""The software bill of materials: CycloneDX, of what Coterie needs, in the versions that are installed here.

The same environment gives the same bytes: the time is the release's, the serial number follows from the content, and
nothing says on which machine or from where packages were installed. Hashes are those of the release's own files; an
installed package does not know those of the archive it came from.
"""

from __future__ import annotations

import datetime
import platform
import zlib
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseAcknowledgement
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: Extras that users install; the others are for developers.
EXTRAS = ("postgres",)
DECLARED = LicenseAcknowledgement.DECLARED


def make_bill(
    project: Mapping[str, Any], version: str, digest: str, files: Mapping[str, str], when: datetime.datetime
) -> str:
    """As JSON. `project`: of pyproject.toml; `digest`: of the software; `files`: SHA-256 of what is released."""
    coterie = _describe_release(project, version, digest, files)
    required = find_needed(project["dependencies"])
    extras = [line for name in EXTRAS for line in project["optional-dependencies"][name]]
    needed = {**find_needed(extras), **required}
    listed = {
        name: _describe(found, ComponentScope.REQUIRED if name in required else ComponentScope.OPTIONAL)
        for name, found in needed.items()
    }
    tools = [_describe(distribution(name), None) for name in ("build", "hatchling", "cyclonedx-python-lib")]
    bill = Bom(
        serial_number=UUID(int=0),
        metadata=BomMetaData(
            timestamp=when,
            component=coterie,
            tools=ToolRepository(components=tools),
            properties=[
                Property(name="coterie:python", value=platform.python_version()),
                Property(name="coterie:zlib", value=zlib.ZLIB_RUNTIME_VERSION),
            ],
        ),
        components=listed.values(),
    )
    bill.register_dependency(coterie, [listed[name] for name in _name_direct([*project["dependencies"], *extras])])
    for name, found in needed.items():
        direct = [listed[other] for other in _name_direct(found.requires or ()) if other in listed]
        bill.register_dependency(listed[name], direct)
    bill.serial_number = uuid5(NAMESPACE_OID, JsonV1Dot6(bill).output_as_string())
    return JsonV1Dot6(bill).output_as_string(indent=2) + "\n"


def find_needed(requirements: Iterable[str]) -> dict[str, Distribution]:
    """What is installed of these and of all that they need in turn, by name."""
    found: dict[str, Distribution] = {}
    left = [(Requirement(line), "") for line in requirements]
    seen = set()
    while left:
        wanted, extra = left.pop()
        if (str(wanted), extra) in seen or not (wanted.marker is None or wanted.marker.evaluate({"extra": extra})):
            continue
        seen.add((str(wanted), extra))
        try:
            installed = distribution(wanted.name)
        except PackageNotFoundError:
            raise LookupError(
                f"{wanted.name} is needed and not installed; pip install -e '.[dev]' installs it"
            ) from None
        found[canonicalize_name(wanted.name)] = installed
        for line in installed.requires or ():
            left += [(Requirement(line), inner) for inner in ("", *wanted.extras)]
    return dict(sorted(found.items()))


def _name_direct(requirements: Iterable[str]) -> list[str]:
    """Those that apply here, without extras of their own."""
    wanted = [Requirement(line) for line in requirements]
    return [canonicalize_name(one.name) for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]


def _describe_release(project: Mapping[str, Any], version: str, digest: str, files: Mapping[str, str]) -> Component:
    return Component(
        type=ComponentType.APPLICATION,
        name=project["name"],
        version=version,
        description=project["description"],
        licenses=[LicenseFactory().make_from_string(project["license"], license_acknowledgement=DECLARED)],
        properties=[Property(name="coterie:digest", value=digest)],
        components=[
            Component(
                type=ComponentType.FILE,
                name=name,
                bom_ref=name,
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=value)],
            )
            for name, value in files.items()
        ],
        **_identify(project["name"], version),
    )


def _describe(found: Distribution, scope: ComponentScope | None) -> Component:
    name = canonicalize_name(found.metadata["Name"])
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=found.version,
        scope=scope,
        licenses=_find_licenses(found),
        **_identify(name, found.version),
    )


def _identify(name: str, version: str) -> dict[str, Any]:
    purl = PackageURL("pypi", name=name, version=version)
    return {"purl": purl, "bom_ref": str(purl)}


def _find_licenses(found: Distribution) -> list[License]:
    """As the package declares them: an expression, or classifiers, or a line of its own."""
    said = found.metadata
    for expression in said.get_all("License-Expression", []):
        return [LicenseFactory().make_from_string(expression, license_acknowledgement=DECLARED)]
    listed = [line for line in said.get_all("Classifier", []) if line.startswith("License :: ")]
    names = {line.rpartition(" :: ")[2] for line in listed} or set(said.get_all("License", []))
    return [DisjunctiveLicense(name=name, acknowledgement=DECLARED) for name in sorted(names) if "\n" not in name]
