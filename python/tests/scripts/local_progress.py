"""Makes ten steps in a mode with local steps, and reports after each."""

from __future__ import annotations

import torch

import strata.torch as st

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
optimizer = st.DistributedOptimizer(optimizer, model, total_steps=10)
for step in range(10):
    optimizer.zero_grad()
    loss = model(torch.ones(8, 2)).square().mean()
    loss.backward()
    optimizer.step()
    st.report(loss=loss.item())
    if step == 5:
        st.report(perplexity=2.5)
