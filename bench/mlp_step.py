"""A training step of a tiny network, 16-32-1 on a batch of 32: forward, backward, Adam."""


def build_for(compiled):
    def build(lib):
        nn = lib.nn
        model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
        optimizer = lib.torch.optim.Adam(model.parameters(), lr=1e-3)
        x, y = lib.tensor(32, 16), lib.tensor(32, 1)
        if compiled:
            model = lib.torch.compile(model)

        def step():
            loss = lib.F.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return step

    return build


def cases(case):
    build = build_for(False)
    case("step", "16-32-1, batch 32", {"minidl": build, "torch": build, "compile": build_for(True)},
         items=1, unit="steps/s", grad=True, threads=1, quick=True)


if __name__ == "__main__":
    from script import run

    run(__file__)
