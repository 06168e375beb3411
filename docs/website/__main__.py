"""Build the documentation site: `make docs`, or `python docs/website [folder]`.

    the pages of docs/, the reference, the pictures, the explorer's pages  ->  build/docs  ->  zensical  ->  build/site

Broken links are errors. The site loads nothing from a network and opens from the file system as well.
"""

import sys
from pathlib import Path

from site_pages import ROOT, build

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build"
    print(f"the site is in {build(folder)}")
