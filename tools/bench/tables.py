"""Numbers and tables in Markdown."""


def number(value: float | None) -> str:
    """Three digits or whole numbers with thousands: 0.123, 1.23, 12.3, 123, 1,234."""
    if value is None:
        return "-"
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.0f} %"


def times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]
