"""Draw pictures: charts, graphs of models, HTML and SVG elements."""
