"""Writes cases.json: templates with what jinja2 3.1.6 makes of them, set up as transformers 5 does for chat templates.

python3 cases.py > cases.json
"""
import json
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

SETUP = """{% set s, n, f, l, d, u = "it's a-test (of <b>", 7, 2.5, [3, 1, 2], {"b": 1, "A": "x"}, "Größe ßtraße" -%}
{% set m = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}, {"role": "User", "content": "Ha"}] %}
"""
EXPRESSIONS = r"""
s|title; s.title(); s|capitalize; s|upper; u|upper; u|title; u|lower; "ÉCOLE x"|title; "a\tb\nc-d"|title
'<b>'|safe + '<i>'; '<i>' + '<b>'|safe; ('<b>'|e) + '<'; '<b>' + '<i>'; '<b>'|safe ~ '<i>'; '<b>'|e|e; s|escape; s|safe
"ab"|center(5) ~ "|"; "abc"|center(6) ~ "|"; "ab".center(5) ~ "|"; "abc".center(6, "*"); "abc".center(2); "ab".ljust(4, ".") ~ "|"; "ab".rjust(4, "é"); "ab"|center|length
"7".zfill(3); "-7".zfill(4); "+x".zfill(5); "abc".zfill(2); "a=b=c".partition("="); "a=b=c".rpartition("="); "abc".partition("="); "abc".rpartition("=")
"abcabc".rindex("b"); "abcabc".rfind("z"); "abcabc".index("c"); "abc".count(""); "a b  c".split(" "); "a b  c".split(); "a,b,c".rsplit(",", 1)
"%.2f"|format(3.14159); "%5.1f|%-6d|%05d"|format(2.25, 42, -7); "%s and %r"|format("a", "b"); "%+d %x %%"|format(5, 255); "%5s|%-5s|%.1s"|format("ab", "cd", "ef"); "%d"|format(3.9); "%f"|format(1)
"%s=%s" % ("a", 1); "%s" % none; "%d%%" % 50; "%06.2f" % 3.14159; "%-8s|" % "é"; "%i" % true
'{:>5}|{:<5}|{:^5}'.format("a", "b", "c"); '{:*^7}'.format("é"); '{n:>5}'.format(n=42); '{0:05d} {0:+d} {1:.3f}'.format(42, 2.0); '{:,} {:,.2f} {:,}'.format(1234567, 1234.5, -999); '{:.2}'.format("abc"); '{:x}'.format(255); '{:5}|{:<5}|{:5}|'.format(7, 7, "x"); '{{}} {}'.format(1.0); '{:08.3f}'.format(-3.14159); '{:.0f} {:f}'.format(2.5, 3)
"foo bar baz qux"|truncate(9); "foo bar baz qux"|truncate(9, true); "foo bar baz qux"|truncate(11); "foo bar baz qux"|truncate(11, false, "…", 0); "foobarbaz"|truncate(5, leeway=0); "short"|truncate
[1,2,3,4,5]|slice(3)|list; [1,2,3,4,5]|slice(3, "x")|list; [1,2]|slice(3)|list; [1,2,3,4,5]|batch(2)|list; [1,2,3]|batch(2, 0)|list
m|groupby("role")|list; m|groupby("role", case_sensitive=true)|map(attribute="grouper")|list; m|groupby("zz", default="q")|map("last")|map("length")|list; m|map(attribute="content")|join("/")
l|sort; l|sort(reverse=true); d|dictsort; d|items|list; d.items(); l|sum; l|min; l|max; ["b","A","a"]|unique|list; ["b","A","c"]|sort; l|reverse|list; "abc"|reverse; l|first; l|last; l|length
n // 2; -7 // 2; -7 % 3; 7 % -3; 2 ** 10; 2 ** -1; 7 / 2; 1e16; 1e15; 1e-5; 0.1 + 0.2; 1_000; -0.0; 3.0; 1/3; 10 ** 15; true + 1; 7.0 // 2; -7.5 % 2
1 < 2 < 3; "a" < "b"; [1,2] < [1,3]; 1 == 1.0; "1" == 1; 3 in l; "x" not in d; none is none; n is odd; n is divisibleby 7; s is string; d is mapping; l is sequence; l is iterable; zz is defined; f is float; n is number; true is boolean; 'ab' is upper; 'AB' is upper; 'a1' is lower
"AB1".isupper(); "1".isupper(); "ab 1".islower(); "ab1".isalnum(); "12".isdigit(); "".isdigit(); "  ".isspace(); "äb".isalpha()
zz|default("q"); ""|default("q", true); none|default("q"); none|string; "42"|int; "x"|int(9); "4.9"|int; "1e3"|float; 2.5|round; 3.5|round; 2.345|round(2); 2.1|round(0, "ceil"); -3|abs; "0x1f"|int(0, 16)
"a\nb\n\nc"|indent; "a\nb"|indent(2, true); "a b c"|wordcount; "x"|list; {"a": [1, {"b": none}]}|tojson; [1.0, 1e-7, "é</>"]|tojson; {"b":1,"a":2}|tojson(sort_keys=true) if false else 1; [1,[2]]|tojson(indent=2)
"abc"[1]; "abc"[-2:]; "abc"[::2]; "abc"[::-1]; l[1:]; l[-1]; (1,2)[0]; d["b"]; d.A; d["zz"]|default("none"); "Größe"[2:4]; u|length; "abc".replace("b", "xx"); "aaa"|replace("a", "b", 2); "aaa".replace("", "-")
" x ".strip() ~ "|"; "xxaxx".strip("x"); "xyaxy".lstrip("yx"); "abc".removeprefix("a"); "abc".removesuffix("bc"); "abc".startswith(("x", "a")); "a\r\nb\nc".splitlines(); "-".join(["a","b"]); "a" * 3; [0] * 3; [1] + [2]; "it's" ~ '"'; ["it's", '"', '\n', 'é']; ("a",); {"a": 1.0, 2: none}; {}; []; ()
"x" if false; "x" if n > 3 else "y"; not n; n and f; zz or "o"; [1,2]|map("string")|list; [0,1,2]|select|list; [1,2,3]|reject("odd")|list; m|selectattr("role", "equalto", "user")|map(attribute="content")|list; m|rejectattr("role", "in", ["user"])|list|length
range(5)|list; range(5, 1, -2)|list; dict(a=1, b=2); namespace(a=1).a; "abc"|attr("zz") is defined; l|join(", "); [1, none, "x"]|join; "a&b"|e|length; "%s"|format(l)
"""
BLOCKS = [
    "{% raw %}\n {{ x }}\n{% endraw %}\nend", "a {%- raw -%} \n {{ x }} \n {%- endraw -%} b", "  {% raw %}{% if %}{% endraw %}  x",
    "{% for g in m|groupby('role') %}{{ g.grouper }}:{{ g.list|length }} {% endfor %}", "{% for k, v in m|groupby('content') %}{{ k }}{{ v|length }}{% endfor %}",
    "{% macro f(a, b='d') %}[{{ a }}{{ b }}{{ caller() if caller else '' }}]{% endmacro %}{{ f(1) }}{{ f(1, b=2) }}{% call f(3) %}in{% endcall %}",
    "{% set x = 1 %}{% for i in l %}{% set x = i %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}{% else %}e{% endfor %}{{ x }}",
    "{% for i in range(6) if i % 2 %}{{ i }}{{ loop.nextitem|default('-') }}{% if i == 3 %}{% continue %}{% endif %};{% endfor %}",
    "{% set ns = namespace(t=0) %}{% for i in l %}{% set ns.t = ns.t + i %}{% endfor %}{{ ns.t }}", "{% with a=1, b=2 %}{{ a }}{{ b }}{% endwith %}{{ a }}",
    "{% filter upper %}abc{{ n }}{% endfilter %}", "{% set q %}a{{ n }}b{% endset %}{{ q|length }}", "{% if n > 9 %}a{% elif n > 5 %}b{% else %}c{% endif %}",
    "x\n  {% if true %}\n  y\n  {% endif %}\nz\n", "x\n  {%+ if true %}\n  y\n  {%- endif +%}\nz", "a {# c #}\n b {#- c -#} d\n", "{{ 'a' }}\n\n{{ 'b' }}\n\n", "\n{% if true %}\n\n{% endif %}",
    "{% for a, b in [(1, 2), (3, 4)] %}{{ a + b }} {% endfor %}{{ loop.cycle(1) if loop is defined }}", "{% for x in 'ab' %}{{ loop.cycle('o', 'e') }}{{ loop.changed(x) }}{% endfor %}",
]


def main():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = lambda x, ensure_ascii=False, indent=None, separators=None, sort_keys=False: json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
    sources = ["{{ %s }}" % e.strip() for line in EXPRESSIONS.strip().split("\n") for e in line.split("; ")] + BLOCKS
    out = [{"source": s, "want": env.from_string(SETUP + s).render()} for s in sources]
    print(json.dumps({"setup": SETUP, "cases": out}, ensure_ascii=False, indent=1))


main()
