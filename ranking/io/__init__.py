"""Input and output: model files, guarded output files, and ids as text.

`Output` writes a file as a whole or not at all; `encode_id` and `IdWriter` write ids so that no
format takes them for something else. `EXPORT_FORMATS` are the formats of `Ranker.export`.
"""

from ranking._utils.text import IdWriter, encode_id
from ranking.io.exports.names import EXPORT_FORMATS
from ranking.io.output import Output

__all__ = ["EXPORT_FORMATS", "IdWriter", "Output", "encode_id"]
