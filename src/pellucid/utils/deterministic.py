"""torch.utils.deterministic: whether new memory is filled, which changes nothing here."""

fill_uninitialized_memory = True
