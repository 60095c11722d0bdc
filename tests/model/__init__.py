"""Models of what makes an answer from the cache right, checked exhaustively by Spin for small sizes (README.md).

- `*.pml`: the models, one for each part; each rule that matters can be left out;
- `checking.py`: builds a model's checker, runs it, reads what it found;
- `__main__.py`: `make model`: every model, then every rule left out; or one of these, with its counterexample.
"""
