"""What a saved law says of models that nobody has quantized: added losses with intervals, tokens until an added loss, training levels."""

from qtraj.predict.ahead import ahead, save_beside
from qtraj.predict.levels import level_map, levels
from qtraj.predict.projections import projection
from qtraj.predict.saved import PUBLISHED, Law, law_of, load, save
from qtraj.predict.tables import table_of_tokens, tokens_until
from qtraj.predict.values import predict, score

__all__ = ["Law", "PUBLISHED", "law_of", "load", "save", "predict", "ahead", "save_beside", "score", "levels", "level_map", "tokens_until", "table_of_tokens", "projection"]
