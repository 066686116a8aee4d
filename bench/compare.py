"""Two runs side by side: python -m bench --compare OLD.json NEW.json"""

from bench.table import duration, load


def key(row):
    return row["topic"], row["name"], row["shape"], row["threads"]


def compare(old_path, new_path):
    """Print the rows that both have. More than 5% and more than the spread is called a change."""
    old, new = load(old_path), load(new_path)
    for name in ("cpu", "system", "python", "blas"):
        if old["machine"].get(name) != new["machine"].get(name):
            print(f"different {name}: {old['machine'].get(name)} / {new['machine'].get(name)}")
    before = {key(row): row for row in old["rows"] if row.get("median")}
    print(f"{'case':46} {'thr':>3} {'old':>10} {'new':>10} {'old/new':>8} {'torch old':>10} "
          f"{'torch new':>10}")
    for row in new["rows"]:
        was = before.get(key(row))
        if was is None or not row.get("median"):
            continue
        ratio = was["median"] / row["median"]
        noise = max(0.05, was.get("spread", 0), row.get("spread", 0))
        word = "faster" if ratio > 1 + noise else "SLOWER" if ratio < 1 / (1 + noise) else ""
        title = f"{row['topic']}: {row['name']} {row['shape']}"
        torch = [f"{r['ratios']['torch']:.2f}" if "torch" in r["ratios"] else ""
                 for r in (was, row)]
        print(f"{title:46} {row['threads']:>3} {duration(was['median']):>10} "
              f"{duration(row['median']):>10} {ratio:8.2f} {torch[0]:>10} {torch[1]:>10}  {word}")
