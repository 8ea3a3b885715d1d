package jinja

import (
	"slices"
	"strconv"
)

// stmt and expr are the nodes of a parsed template; exec.go and eval.go run them.
type stmt interface {
	exec(r *run, sc *scope, w *builder) signal
}

type expr interface {
	eval(r *run, sc *scope) Value
}

type parser struct {
	toks  []token
	at    int
	depth int
	loops int
}

func (p *parser) line() int {
	if len(p.toks) == 0 {
		return 0
	}
	return p.toks[min(p.at, len(p.toks)-1)].line
}

func (p *parser) peek() token { return p.toks[p.at] }

func (p *parser) next() token {
	t := p.toks[p.at]
	if t.kind != tokEOF {
		p.at++
	}
	return t
}

func (p *parser) is(k tokKind, s string) bool { t := p.peek(); return t.kind == k && t.s == s }

// accept takes the token if it is that operator or name.
func (p *parser) accept(k tokKind, s string) bool {
	if p.is(k, s) {
		p.at++
		return true
	}
	return false
}

func (p *parser) op(s string) bool   { return p.accept(tokOp, s) }
func (p *parser) word(s string) bool { return p.accept(tokName, s) }

func (p *parser) expect(k tokKind, s string) {
	if !p.accept(k, s) {
		fail(ErrSyntax, "expected %q, found %s", s, p.found())
	}
}

func (p *parser) found() string {
	switch t := p.peek(); t.kind {
	case tokEOF:
		return "the end"
	case tokVarEnd, tokBlockEnd:
		return "the end of the tag"
	case tokData:
		return "text"
	default:
		return strconv.Quote(t.s)
	}
}

func (p *parser) name() string {
	if p.peek().kind != tokName {
		fail(ErrSyntax, "expected a name, found %s", p.found())
	}
	return p.next().s
}

func (p *parser) endTag() {
	if p.peek().kind != tokBlockEnd {
		fail(ErrSyntax, "expected the end of the tag, found %s", p.found())
	}
	p.at++
}

func (p *parser) nest() func() {
	if p.depth++; p.depth > maxNesting {
		fail(ErrLimit, "nesting deeper than %d", maxNesting)
	}
	return func() { p.depth-- }
}

func (p *parser) template() []stmt {
	body := p.block()
	if p.peek().kind != tokEOF {
		fail(ErrSyntax, "unexpected tag %s", p.found())
	}
	return body
}

// block parses statements up to a tag named in ends, whose name is next then, or the end.
func (p *parser) block(ends ...string) []stmt {
	defer p.nest()()
	var body []stmt
	for {
		switch t := p.peek(); t.kind {
		case tokEOF:
			if len(ends) > 0 {
				fail(ErrSyntax, "the template ends where {%% %s %%} is missing", ends[len(ends)-1])
			}
			return body
		case tokData:
			p.at++
			body = append(body, &textStmt{t.s})
		case tokVarBegin:
			p.at++
			e := p.tuple(false)
			if p.peek().kind != tokVarEnd {
				fail(ErrSyntax, "expected the end of the expression, found %s", p.found())
			}
			p.at++
			body = append(body, &outputStmt{e, t.line})
		case tokBlockBegin:
			p.at++
			if len(ends) > 0 && slices.Contains(ends, p.peek().s) {
				return body
			}
			line := p.line()
			body = append(body, &lineStmt{p.tag(), line})
		default:
			fail(ErrSyntax, "unexpected %s", p.found())
		}
	}
}

func (p *parser) tag() stmt {
	switch name := p.name(); name {
	case "if":
		return p.ifTag()
	case "for":
		return p.forTag()
	case "set":
		return p.setTag()
	case "macro":
		return p.macroTag()
	case "call":
		return p.callTag()
	case "filter":
		return p.filterTag()
	case "with":
		return p.withTag()
	case "generation":
		p.endTag()
		body := p.block("endgeneration")
		p.next()
		p.endTag()
		return &blockStmt{body}
	case "break", "continue":
		if p.loops == 0 {
			fail(ErrSyntax, "%q outside a loop", name)
		}
		p.endTag()
		return &jumpStmt{map[string]signal{"break": sigBreak, "continue": sigContinue}[name]}
	case "block", "extends", "include", "import", "from", "autoescape", "trans", "pluralize", "do", "debug":
		fail(ErrUnsupported, "tag %q", name)
	default:
		fail(ErrUnsupported, "unknown tag %q", name)
	}
	return nil
}

func (p *parser) ifTag() stmt {
	s := &ifStmt{}
	for {
		s.conds = append(s.conds, p.expr())
		p.endTag()
		s.bodies = append(s.bodies, p.block("elif", "else", "endif"))
		switch p.next().s {
		case "elif":
			if len(s.conds) > 10*maxChain {
				fail(ErrLimit, "an if with more than %d branches", 10*maxChain)
			}
		case "else":
			p.endTag()
			s.bodies = append(s.bodies, p.block("endif"))
			p.next()
			p.endTag()
			return s
		default:
			p.endTag()
			return s
		}
	}
}

func (p *parser) forTag() stmt {
	s := &forStmt{targets: p.targets()}
	p.expect(tokName, "in")
	s.iter = p.tupleNoIf()
	if p.word("if") {
		s.cond = p.expr()
	}
	if p.is(tokName, "recursive") {
		fail(ErrUnsupported, "recursive loops")
	}
	p.endTag()
	p.loops++
	s.body = p.block("else", "endfor")
	p.loops--
	if p.next().s == "else" {
		p.endTag()
		s.otherwise = p.block("endfor")
		p.next()
	}
	p.endTag()
	return s
}

// targets are the names that a loop or a set gives values to.
func (p *parser) targets() []string {
	paren := p.op("(")
	names := []string{p.name()}
	for p.op(",") {
		names = append(names, p.name())
	}
	if paren {
		p.expect(tokOp, ")")
	}
	return names
}

func (p *parser) setTag() stmt {
	s := &setStmt{}
	s.names = append(s.names, p.name())
	if p.op(".") {
		s.attr = p.name()
	} else {
		for p.op(",") {
			s.names = append(s.names, p.name())
		}
	}
	if p.op("=") {
		s.value = p.tuple(false)
		p.endTag()
		return s
	}
	if len(s.names) > 1 {
		fail(ErrSyntax, "expected \"=\", found %s", p.found())
	}
	for p.op("|") {
		s.filters = append(s.filters, p.filter(nil))
	}
	p.endTag()
	s.body = p.block("endset")
	p.next()
	p.endTag()
	return s
}

func (p *parser) macroTag() stmt {
	m := &macroStmt{name: p.name()}
	p.signature(m)
	loops := p.loops
	p.loops = 0
	m.body = p.block("endmacro")
	p.loops = loops
	p.next()
	if p.peek().kind == tokName {
		p.next()
	}
	p.endTag()
	return m
}

func (p *parser) signature(m *macroStmt) {
	p.expect(tokOp, "(")
	for !p.op(")") {
		if len(m.params) > 0 {
			p.expect(tokOp, ",")
			if p.op(")") {
				break
			}
		}
		m.params = append(m.params, p.name())
		var def expr
		if p.op("=") {
			def = p.expr()
		} else if n := len(m.defaults); n > 0 && m.defaults[n-1] != nil {
			fail(ErrSyntax, "a parameter without a default after one with")
		}
		m.defaults = append(m.defaults, def)
	}
	p.endTag()
}

func (p *parser) callTag() stmt {
	m := &macroStmt{name: "caller"}
	if p.is(tokOp, "(") {
		fail(ErrUnsupported, "call blocks with parameters")
	}
	call, ok := p.expr().(*callExpr)
	if !ok {
		fail(ErrSyntax, "a call block needs a call")
	}
	p.endTag()
	m.body = p.block("endcall")
	p.next()
	p.endTag()
	return &callStmt{call, m}
}

func (p *parser) filterTag() stmt {
	f := []*filterExpr{p.filter(nil)}
	for p.op("|") {
		f = append(f, p.filter(nil))
	}
	p.endTag()
	body := p.block("endfilter")
	p.next()
	p.endTag()
	return &filterStmt{f, body}
}

func (p *parser) withTag() stmt {
	s := &withStmt{}
	for p.peek().kind == tokName {
		s.names = append(s.names, p.name())
		p.expect(tokOp, "=")
		s.values = append(s.values, p.expr())
		if !p.op(",") {
			break
		}
	}
	p.endTag()
	s.body = p.block("endwith")
	p.next()
	p.endTag()
	return s
}

// tuple parses an expression, or several separated by commas. With forced it is a tuple even if single.
func (p *parser) tuple(forced bool) expr { return p.tupleOf(p.expr, forced) }

func (p *parser) tupleNoIf() expr { return p.tupleOf(p.or, false) }

func (p *parser) tupleOf(one func() expr, forced bool) expr {
	first := one()
	if !forced && !p.is(tokOp, ",") {
		return first
	}
	items := []expr{first}
	for p.op(",") {
		if t := p.peek(); t.kind == tokVarEnd || t.kind == tokBlockEnd || t.kind == tokOp && t.s == ")" {
			break
		}
		items = append(items, one())
	}
	return &listExpr{items, tupleList}
}

// expr parses "a if b else c" and everything that binds tighter.
func (p *parser) expr() expr {
	defer p.nest()()
	e := p.or()
	for n := 0; p.word("if"); n++ {
		p.chain(n)
		c := &condExpr{then: e, cond: p.or()}
		if p.word("else") {
			c.otherwise = p.expr()
		}
		e = c
	}
	return e
}

func (p *parser) chain(n int) {
	if n > maxChain {
		fail(ErrLimit, "a chain of more than %d operators", maxChain)
	}
}

func (p *parser) or() expr {
	e := p.and()
	for n := 0; p.word("or"); n++ {
		p.chain(n)
		e = &logicExpr{e, p.and(), true}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for n := 0; p.word("and"); n++ {
		p.chain(n)
		e = &logicExpr{e, p.not(), false}
	}
	return e
}

func (p *parser) not() expr {
	if p.word("not") {
		defer p.nest()()
		return &notExpr{p.not()}
	}
	return p.compare()
}

func (p *parser) compare() expr {
	first := p.sum()
	c := &compareExpr{first: first}
	for {
		var op string
		switch t := p.peek(); {
		case t.kind == tokOp && slices.Contains([]string{"==", "!=", "<", ">", "<=", ">="}, t.s):
			op = p.next().s
		case p.word("in"):
			op = "in"
		case p.is(tokName, "not") && p.toks[p.at+1].kind == tokName && p.toks[p.at+1].s == "in":
			p.at += 2
			op = "not in"
		default:
			if c.ops == nil {
				return first
			}
			return c
		}
		p.chain(len(c.ops))
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

func (p *parser) binary(sub func() expr, ops ...string) expr {
	e := sub()
	for n := 0; p.peek().kind == tokOp && slices.Contains(ops, p.peek().s); n++ {
		p.chain(n)
		e = &binaryExpr{p.next().s, e, sub()}
	}
	return e
}

func (p *parser) sum() expr     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.binary(p.product, "~") }
func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.binary(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) expr {
	if p.is(tokOp, "-") || p.is(tokOp, "+") {
		defer p.nest()()
		op := p.next().s
		var e expr = &unaryExpr{op, p.unary(false)}
		if filters {
			e = p.filters(e)
		}
		return e
	}
	e := p.postfix(p.primary())
	if filters {
		e = p.filters(e)
	}
	return e
}

func (p *parser) primary() expr {
	switch t := p.next(); t.kind {
	case tokName:
		switch t.s {
		case "true", "True":
			return &constExpr{Bool(true)}
		case "false", "False":
			return &constExpr{Bool(false)}
		case "none", "None":
			return &constExpr{None{}}
		}
		return &nameExpr{t.s, t.line}
	case tokString:
		s := t.s
		for p.peek().kind == tokString {
			s += p.next().s
		}
		return &constExpr{Text(s)}
	case tokInt:
		n, err := strconv.ParseInt(t.s, 10, 64)
		if err != nil {
			return &constExpr{Big(t.s)}
		}
		return &constExpr{Int(n)}
	case tokFloat:
		f, _ := strconv.ParseFloat(t.s, 64)
		return &constExpr{Float(f)}
	case tokOp:
		switch t.s {
		case "(":
			if p.op(")") {
				return &listExpr{nil, tupleList}
			}
			e := p.tuple(false)
			p.expect(tokOp, ")")
			return e
		case "[":
			l := &listExpr{kind: plainList}
			for !p.op("]") {
				if len(l.items) > 0 {
					p.expect(tokOp, ",")
					if p.op("]") {
						break
					}
				}
				l.items = append(l.items, p.expr())
			}
			return l
		case "{":
			d := &dictExpr{}
			for !p.op("}") {
				if len(d.keys) > 0 {
					p.expect(tokOp, ",")
					if p.op("}") {
						break
					}
				}
				d.keys = append(d.keys, p.expr())
				p.expect(tokOp, ":")
				d.vals = append(d.vals, p.expr())
			}
			return d
		}
	}
	p.at = max(0, p.at-1)
	fail(ErrSyntax, "unexpected %s", p.found())
	return nil
}

func (p *parser) postfix(e expr) expr {
	for n := 0; ; n++ {
		p.chain(n)
		switch {
		case p.op("."):
			if p.peek().kind == tokInt {
				i, _ := strconv.ParseInt(p.next().s, 10, 64)
				e = &indexExpr{e, &constExpr{Int(i)}}
				continue
			}
			name := p.name()
			if why, bad := unsupportedMethods[name]; bad && p.is(tokOp, "(") {
				fail(ErrUnsupported, "method %q%s", name, why)
			}
			e = &attrExpr{e, name}
		case p.op("["):
			e = p.subscript(e)
		case p.is(tokOp, "("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) subscript(e expr) expr {
	var parts [3]expr
	slice := false
	for i := 0; ; i++ {
		if !p.is(tokOp, ":") && !p.is(tokOp, "]") {
			parts[i] = p.expr()
		}
		if i == 2 || !p.op(":") {
			break
		}
		slice = true
	}
	p.expect(tokOp, "]")
	if slice {
		return &sliceExpr{e, parts}
	}
	if parts[0] == nil {
		fail(ErrSyntax, "an empty subscript")
	}
	return &indexExpr{e, parts[0]}
}

// call parses the arguments after a callable.
func (p *parser) call(e expr) *callExpr {
	c := &callExpr{fn: e, line: p.line()}
	p.expect(tokOp, "(")
	for n := 0; !p.op(")"); n++ {
		if n > 0 {
			p.expect(tokOp, ",")
			if p.op(")") {
				break
			}
		}
		if p.is(tokOp, "*") || p.is(tokOp, "**") {
			fail(ErrUnsupported, "argument lists with %q", p.peek().s)
		}
		if p.peek().kind == tokName && p.toks[p.at+1].kind == tokOp && p.toks[p.at+1].s == "=" {
			c.keys = append(c.keys, p.name())
			p.at++
			c.kw = append(c.kw, p.expr())
			continue
		}
		if len(c.keys) > 0 {
			fail(ErrSyntax, "a positional argument after a named one")
		}
		c.args = append(c.args, p.expr())
	}
	return c
}

func (p *parser) filters(e expr) expr {
	for n := 0; ; n++ {
		p.chain(n)
		switch {
		case p.op("|"):
			e = p.filter(e)
		case p.word("is"):
			e = p.test(e)
		case p.is(tokOp, "("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) filter(e expr) *filterExpr {
	f := &filterExpr{name: p.name(), of: e, line: p.line()}
	fn, ok := filters[f.name]
	if !ok {
		fail(ErrUnsupported, "filter %q", f.name)
	}
	f.fn = fn
	if p.is(tokOp, "(") {
		f.call = p.call(nil)
	}
	return f
}

func (p *parser) test(e expr) expr {
	negated := p.word("not")
	t := &testExpr{name: p.name(), of: e}
	fn, ok := tests[t.name]
	if !ok {
		fail(ErrUnsupported, "test %q", t.name)
	}
	t.fn = fn
	if p.is(tokOp, "(") {
		t.args = p.call(nil).args
	} else if n := p.peek(); n.kind == tokString || n.kind == tokInt || n.kind == tokFloat ||
		n.kind == tokOp && (n.s == "[" || n.s == "{") ||
		n.kind == tokName && !slices.Contains([]string{"else", "or", "and", "is", "if", "in", "not", "recursive"}, n.s) {
		t.args = []expr{p.postfix(p.primary())}
	}
	if negated {
		return &notExpr{t}
	}
	return t
}
