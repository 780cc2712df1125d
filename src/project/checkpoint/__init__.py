"""The file that both twins write and read, and where a saved run stands."""
