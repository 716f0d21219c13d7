"""The operators whose settings are decided while they run (see `operators.streams.settings`)."""

from operators.streams.shed import Shed
from operators.windows.ranged_window import RangedWindow

Adjustable = Shed | RangedWindow
