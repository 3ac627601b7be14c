"""What the programs of this folder share."""
