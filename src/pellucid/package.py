"""torch.package, which is not here."""

from pellucid.absent import absent

__getattr__ = absent(
    "torch.package", "PackageExporter PackageImporter EmptyMatchError PackagingError Importer sys_importer",
    "programs are not packed with their data", "torch.save(model.state_dict(), path), and the program by itself",
)  # fmt: skip
