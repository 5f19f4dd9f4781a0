"""Opens pages of report.py in a headless browser and looks for faults:  check_page.py [--pictures DIR] PAGE.html ...

Prints a line for each: a message on the console, a request for anything but the page, a page that is wider than the window (at 1280
pixels, at 390 as on a phone, and on paper), texts that overflow their box or lie over another, a picture that does not show, a link that leads
nowhere or elsewhere, or more than 8 MB. Exits with 1 if there are any, with 77 if there is no browser. --pictures keeps screenshots
and the page as it prints."""

import argparse
import pathlib
import sys

import browser

BYTES = 8e6
SLACK = 1.5  # pixels
SIZES = {"1280": (1280, 900, False), "phone": (390, 844, True), "paper": (718, 1000, False)}  # an A4 page without its margins

# Boxes of all visible texts, with the number of the element that they are in; of what scrolls, the part that is seen.
TEXTS = """(() => {
  const boxes = [], owners = new Map();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; node = walk.nextNode();) {
    const owner = node.parentElement;
    if (!node.data.trim() || !owner.checkVisibility()) continue;
    const scroll = owner.closest('.scroll'), seen = scroll && scroll.getBoundingClientRect();
    if (!owners.has(owner)) owners.set(owner, owners.size);
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      const left = seen ? Math.max(r.left, seen.left) : r.left, right = seen ? Math.min(r.right, seen.right) : r.right;
      if (right > left) boxes.push([owners.get(owner), left, r.top + scrollY, right, r.bottom + scrollY, node.data.trim().slice(0, 40)]);
    }
  }
  return boxes;
})()"""

# Elements whose content is wider than they are, outside of what scrolls.
WIDE = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll') && e.clientWidth > 0
  && e.scrollWidth > e.clientWidth + 1).map(e => e.tagName + ' ' + e.textContent.trim().slice(0, 40))"""

PICTURES = """Promise.all([...document.images].map(i => i.decode().then(() => i.naturalWidth > 0 && i.alt ? null : i.alt || 'a picture without alt',
  e => `${i.alt}: ${e}`))).then(found => found.filter(f => f))"""

LINKS = """[...document.querySelectorAll('a')].map(a => a.getAttribute('href')).filter(h => !h || h[0] != '#' || !document.getElementById(h.slice(1)))"""


def overlaps(boxes):
    """Pairs of texts of different elements that lie over each other."""
    boxes = sorted(boxes, key=lambda box: box[2])
    for i, (owner, left, top, right, bottom, text) in enumerate(boxes):
        for other, left2, top2, right2, bottom2, text2 in boxes[i + 1:]:
            if top2 > bottom - SLACK:
                break
            if other != owner and min(right, right2) - max(left, left2) > SLACK and min(bottom, bottom2) - top2 > SLACK:
                yield f"{text!r} lies over {text2!r}"


def reported(page, address):
    """What the browser reported of loading the page."""
    for method, said in page.events:
        if method == "Runtime.exceptionThrown":
            yield f"exception: {said['exceptionDetails']['text']}"
        elif method == "Runtime.consoleAPICalled":
            yield f"console: {said['type']}: {[argument.get('value') for argument in said['args']]}"
        elif method == "Log.entryAdded":
            yield f"log: {said['entry']['level']}: {said['entry']['text']}"
        elif method == "Network.requestWillBeSent":
            url = said["request"]["url"]
            if url != address and not url.startswith("data:"):
                yield f"loads {url}"


def faults(page, path, size, pictures):
    page.ask("Emulation.setEmulatedMedia", media="print" if size == "paper" else "screen")
    page.open(path, *SIZES[size])
    yield from (f"picture: {text}" for text in page.value(PICTURES))
    yield from (f"link: {text}" for text in page.value(LINKS))
    wide, seen = page.value("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    if wide > seen + 1:
        yield f"the page is {wide} pixels wide in a window of {seen}"
    yield from (f"wider than its box: {text}" for text in page.value(WIDE))
    boxes = page.value(TEXTS)
    if len(boxes) < 20:
        yield f"only {len(boxes)} texts"
    yield from overlaps(boxes)
    yield from reported(page, path.resolve().as_uri())
    if pictures:
        page.screenshot(pictures / f"{path.parent.name}-{size}.png")
        page.print(pictures / f"{path.parent.name}.pdf")


def main():
    parser = argparse.ArgumentParser(description="Looks for faults of pages in a headless browser.")
    parser.add_argument("pages", type=pathlib.Path, nargs="+")
    parser.add_argument("--pictures", type=pathlib.Path)
    options = parser.parse_args()
    program = browser.find()
    if not program:
        print(f"skipped: no browser ({', '.join(browser.NAMES)})")
        sys.exit(77)
    count = 0
    page = browser.Page(program)
    try:
        for path in options.pages:
            found = [f"{path.stat().st_size} bytes, more than {BYTES:.0f}"] if path.stat().st_size > BYTES else []
            found += [f"{size}: {fault}" for size in SIZES for fault in faults(page, path, size, options.pictures)]
            count += len(found)
            print("".join(f"{path}: {fault}\n" for fault in found), end="")
    finally:
        page.close()
    print(f"{len(options.pages)} pages, {count} faults")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
