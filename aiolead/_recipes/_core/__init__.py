"""What all recipes are built on."""
