"""SASL."""
