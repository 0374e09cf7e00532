"""Maximum-margin clustering, k-medoids."""
