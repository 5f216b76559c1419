"""A check that the engine has not become slower or wasteful, by figures that a busy machine does not change."""
