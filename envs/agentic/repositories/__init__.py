"""Generated repositories with a fault: composed of parts, broken, told of by what was observed, and mended by tools."""
