"""The stand-ins of `holdfast.testing`, tested as what they are."""
