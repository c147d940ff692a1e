"""The main job on real data: New York flights of 2013."""
