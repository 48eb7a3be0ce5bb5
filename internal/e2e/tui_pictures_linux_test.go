package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// span is a piece of a screen in one style.
type span struct {
	Text  string `json:"text"`
	Style string `json:"style"`
}

// colours are the sixteen that a terminal has, as many draw them on a dark ground.
var colours = strings.Fields("#21262d #ff7b72 #3fb950 #d29922 #79c0ff #d2a8ff #56d4dd #c9d1d9 " +
	"#6e7681 #ffa198 #56d364 #e3b341 #a5d6ff #e2c5ff #b3f0ff #f0f6fc")

// styled reads what tmux says of a screen.
func styled(screen string) (all []span) {
	style := map[string]string{}
	for i, piece := range strings.Split(screen, "\x1b[") {
		if i > 0 {
			codes, rest, _ := strings.Cut(piece, "m")
			for code := range strings.SplitSeq(codes, ";") {
				restyle(style, code)
			}
			piece = rest
		}
		all = append(all, span{piece, strings.Join([]string{style["weight"], style["faint"], style["ink"], style["reverse"]}, ";")})
	}
	return all
}

func restyle(style map[string]string, code string) {
	n, _ := strconv.Atoi(code)
	switch {
	case n == 0:
		clear(style)
	case n == 1:
		style["weight"] = "font-weight:bold"
	case n == 2:
		style["faint"] = "opacity:.65"
	case n == 7:
		style["reverse"] = "background:#c9d1d9;color:#0d1117"
	case n >= 30 && n <= 37:
		style["ink"] = "color:" + colours[n-30]
	case n >= 90 && n <= 97:
		style["ink"] = "color:" + colours[n-90+8]
	case n == 39:
		delete(style, "ink")
	}
}

// screenPage makes a page with a screen on it.
const screenPage = `(spans => {
	document.documentElement.style.background = "#0d1117";
	const pre = document.createElement("pre");
	pre.style.cssText = "margin:0;padding:14px;display:inline-block;color:#c9d1d9;background:#0d1117;font:14px/1.35 'DejaVu Sans Mono',monospace";
	for (const { text, style } of spans) {
		const s = document.createElement("span");
		s.textContent = text;
		s.style.cssText = style;
		pre.append(s);
	}
	document.body.style.margin = 0;
	document.body.replaceChildren(pre);
	return [Math.ceil(pre.getBoundingClientRect().width), Math.ceil(pre.getBoundingClientRect().height)];
})`

// picture draws what is on a screen, at a size, where pictures are wanted ('make screenshots').
func (p *panes) picture(name, file string, columns, rows int) {
	p.t.Helper()
	dir := os.Getenv("PALYRA_PICTURES")
	if dir == "" {
		return
	}
	was := strings.Fields(p.must("display-message", "-p", "-t", name, "#{window_width} #{window_height}"))
	resize := func(columns, rows string) {
		p.must("resize-window", "-t", name, "-x", columns, "-y", rows)
		<-time.After(time.Second) // until it is drawn anew
	}
	resize(strconv.Itoa(columns), strconv.Itoa(rows))
	defer resize(was[0], was[1])
	spans, err := json.Marshal(styled(p.must("capture-pane", "-p", "-e", "-t", name)))
	must(p.t, err)
	page := newChromium(p.t).open("about:blank", false)
	var size [2]int
	must(p.t, page.js(screenPage+"("+string(spans)+")", &size))
	page.looks(size[0], size[1], false, "dark")
	page.picture(filepath.Join(dir, file+".webp"))
}
