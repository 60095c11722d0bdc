"""What HTTP says about a running proxy: health, metrics, status, the page, and the flush that an operator asks for."""
