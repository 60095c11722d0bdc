"""Real clients through the proxy: Spark, PyIceberg."""
