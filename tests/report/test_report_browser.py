"""The report in a real browser: the view of single prompts works, and text that attacks the page does nothing."""

import shutil

import pytest
from builders.traces import pattern, trace

from analysis.report.page import Source, report

webdriver = pytest.importorskip("selenium.webdriver", reason="the test extra (selenium) is not installed")
WebDriverWait = pytest.importorskip("selenium.webdriver.support.ui").WebDriverWait
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium with its chromedriver here")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--window-size=1280,900",
)
ATTACKS = {
    10: "</script><script>window.hacked=1</script>",
    11: '"><img src=x onerror="window.hacked=2">',
    12: "<!--<script>",
    13: "\n  indented \u2028 &lt;",
    1: "<svg onload=window.hacked=3>",
    50: "<b>overrun</b>",
}
POLICIES = ("constant:tokens=4", "dynamic", "oracle:detect")


def decode(ids):
    return [ATTACKS.get(token, f" word{token}") for token in ids]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    overruns = {at: [(50, 0.25), (51, 0.125)] for at in range(7)}
    rows = [
        pattern(flags, index=index, overruns=overruns) for index, flags in enumerate(("++-+++-+", "++++++", "--++--"))
    ]
    data = trace(*rows, max_overrun=2, target={"model": ATTACKS[10]}, draft={"model": ATTACKS[11]})
    out = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "analysis.report.figures.svg",
            lambda drawing: b'<svg xmlns="http://www.w3.org/2000/svg" width="900" height="9"/>',
        )
        report([Source(data, name=ATTACKS[11], decode=decode)], out, policies=POLICIES)
    return out.as_uri()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield started
    started.quit()


@pytest.fixture
def page(driver, address):
    """The freshly loaded page; afterwards the console must be empty and no attack may have run."""
    driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    driver.get(address)
    driver.get_log("browser")  # what an earlier test left
    driver.get(address)
    choose_policy(driver, POLICIES[0])
    yield driver
    assert driver.get_log("browser") == []
    assert driver.execute_script("return typeof window.hacked") == "undefined"


def find(page, selector):
    return page.find_element("css selector", selector)


def texts(page, kind):
    return [
        element.get_property("textContent") for element in page.find_elements("css selector", f"#view-text .{kind}")
    ]


def kept_text(page):
    """The text that is left when rejected and wasted tokens are taken out."""
    script = (
        "return Array.from(document.querySelectorAll('#view-text .accepted, #view-text .own')).map(e =>"
        " e.textContent).join('')"
    )
    return page.execute_script(script).replace("↵", "")


def policies_of(page):
    script = "return JSON.parse(document.getElementById('view-data').textContent).sources[0].policies"
    return page.execute_script(script)


def choose_policy(page, policy):
    page.execute_script(
        "document.querySelectorAll('#policy-rows input')[arguments[0]].click()", policies_of(page).index(policy)
    )


def choose_prompt(page, number):
    page.execute_script(
        "const s = document.getElementById('prompt-choice'); s.value = arguments[0]; s.dispatchEvent(new"
        " Event('change'))",
        str(number),
    )


def test_first_view_by_hand(page):
    assert find(page, "#viewer").is_displayed()
    assert page.execute_script("return document.getElementById('prompt-choice').options.length") == 3
    # Prompt 0, constant 4: two accepted, 1 rejected and 50 wasted after it; then the budget of the remaining length.
    rounds = [each.get_attribute("aria-label") for each in page.find_elements("css selector", "#view-text .round")]
    assert rounds == [
        "iteration 1: 4 drafted, 2 accepted",
        "iteration 2: 4 drafted, 3 accepted",
        "iteration 3: 0 drafted, 0 accepted",
    ]
    assert texts(page, "rejected") == [ATTACKS[1], ATTACKS[1]] and texts(page, "overrun") == ["<b>overrun</b>"]
    assert texts(page, "own") == ["<!--<script>", " word16", " word17"]
    assert kept_text(page) == "".join(decode(range(10, 18)))


def test_switching_policies_by_keyboard_keeps_the_text(page):
    from selenium.webdriver.common.keys import Keys

    whole = "".join(decode(range(10, 18)))
    counts, names = {}, policies_of(page)
    find(page, "#policy-rows input").click()
    for number, name in enumerate(names):
        radio = page.switch_to.active_element
        assert radio.get_attribute("value") == str(number) and radio.is_selected()
        assert name in find(page, "#view-text").get_attribute("aria-label")
        assert find(page, "#policy-rows tr.chosen").text.startswith(name)
        assert kept_text(page) == whole
        counts[name] = len(texts(page, "rejected")) + len(texts(page, "overrun"))
        radio.send_keys(Keys.ARROW_DOWN)
    assert [counts[policy] for policy in POLICIES] == [
        3,
        3,
        2,
    ]  # dynamic stops in the overrun, at a confidence of 0.25; detect at the first wrong token


def test_switching_prompts(page):
    previous, following = find(page, "#previous"), find(page, "#next")
    assert not previous.is_enabled()
    following.click()
    assert kept_text(page) == "".join(decode(range(10, 16))) and texts(page, "rejected") == []
    following.click()
    assert not following.is_enabled() and previous.is_enabled()
    choose_prompt(page, 0)
    assert kept_text(page) == "".join(decode(range(10, 18)))
    assert find(page, "#question").get_property("textContent") == " word7 word8 word9"


def test_confidence_on_hover_and_on_focus(page):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    tip, first = find(page, "#tip"), find(page, "#view-text .token")
    assert not tip.is_displayed()
    ActionChains(page).move_to_element(first).perform()
    assert tip.is_displayed() and "accepted; confidence 90.0 %" in tip.text and "iteration 1: 4 drafted" in tip.text
    ActionChains(page).move_to_element(find(page, "h1")).perform()
    assert not tip.is_displayed()
    first.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    focused = page.switch_to.active_element
    assert "overrun" in focused.get_attribute("class") and "wasted; confidence 25.0 %" in tip.text
    focused.send_keys(Keys.ARROW_DOWN)
    assert page.switch_to.active_element.get_property("textContent").startswith("↵")
    page.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert not tip.is_displayed()
    assert page.execute_script("return document.querySelectorAll('#view-text .token[tabindex=\"0\"]').length") == 1


def test_hiding_what_was_not_kept(page):
    find(page, "#hide-unkept").click()
    assert (
        not find(page, "#view-text .rejected").is_displayed() and not find(page, "#view-text .overrun").is_displayed()
    )
    assert find(page, "#view-text .accepted").is_displayed()
    find(page, "#next").click()
    find(page, "#previous").click()
    assert not find(page, "#view-text .rejected").is_displayed()


def test_attacks_add_no_element(page):
    count = "return document.querySelectorAll(arguments[0]).length"
    assert page.execute_script(count, "script") == 2
    assert (
        page.execute_script(
            count, "img:not(.plot), svg:not(.interval, .split, .bar), iframe, object, link:not([rel=icon])"
        )
        == 0
    )
    assert page.execute_script(count, "#view-text b, #view-text img, #view-text script") == 0
    loaded = page.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert all(name.startswith("data:") for name in loaded)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_narrow_screen_needs_no_sideways_scrolling(page, scheme):
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    )
    page.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": False}
    )
    assert page.execute_script("return document.documentElement.scrollWidth") <= 400
    dark = (
        page.execute_script("return getComputedStyle(document.documentElement).backgroundColor") != "rgb(255, 255, 255)"
    )
    assert dark == (scheme == "dark")


def test_without_javascript_everything_else_is_there(page, address):
    page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        page.get(address)
        assert find(page, "#policies table").is_displayed() and find(page, "#glossary dl").is_displayed()
        assert find(page, "noscript p").is_displayed() and not find(page, "#viewer").is_displayed()
    finally:
        page.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def test_the_best_setting_is_the_one_that_is_shown_first(page, address):
    page.get("about:blank")
    page.get(address)
    chosen = find(page, "#policy-rows tr.chosen")
    source = page.execute_script("return JSON.parse(document.getElementById('view-data').textContent).sources[0]")
    assert chosen.text.startswith(source["policies"][source["best"]]) and source["note"] in chosen.text


def test_a_prompt_is_opened_by_its_address_and_changes_it(page, address):
    find(page, "#next").click()
    assert page.execute_script("return location.hash") == "#prompt=p1"
    page.get("about:blank")
    page.get(f"{address}#prompt=p2")
    assert find(page, "#prompt-choice").get_property("value") == "2" and kept_text(page) == "".join(
        decode(range(10, 16))
    )
    assert page.execute_script("return document.activeElement.id") == "prompt-choice"
    page.execute_script("location.hash = '#prompt=p0'")
    assert find(page, "#prompt-choice").get_property("value") == "0"
    page.execute_script("location.hash = '#prompt=%3Cimg src=x onerror=window.hacked=4%3E'")
    missing = find(page, "#view-missing")
    assert missing.is_displayed() and "Prompt <img src=x onerror=window.hacked=4> is not among" in missing.text
    find(page, "#next").click()
    assert not missing.is_displayed()
    find(page, "figcaption a").click()
    assert find(page, "#prompt-choice").get_property("value") == "0"


def test_settings_are_copied_by_a_button(page):
    page.execute_cdp_cmd("Browser.grantPermissions", {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]})
    button = find(page, "#answer .paste button")
    button.click()
    WebDriverWait(page, 5).until(lambda page: button.text == "Copied")
    read = "const done = arguments[0]; navigator.clipboard.readText().then(done, (error) => done(String(error)))"
    assert page.execute_async_script(read) == find(page, "#answer .paste pre").get_property("textContent")


def test_printing_gives_the_answer_a_sheet_of_its_own(page):
    page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        rule = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
        assert page.execute_script(rule, "#answer", "breakAfter") == "page"
        assert page.execute_script(rule, "nav", "display") == page.execute_script(rule, ".copy", "display") == "none"
        # A4 less its margins, at 96 dots an inch.
        screen = {"width": 688, "height": 1016, "deviceScaleFactor": 1, "mobile": False}
        page.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        assert page.execute_script("return document.getElementById('answer').getBoundingClientRect().bottom") < 1016
    finally:
        page.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})
