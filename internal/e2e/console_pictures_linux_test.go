package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/client"
)

// Every section holds in light and dark, on a desk and on a phone: nothing is wider than the screen, and axe finds no
// fault. With PALYRA_PICTURES ('make screenshots') the pictures of docs/images are drawn.
func TestTheLooksOfTheConsole(t *testing.T) {
	d := newDaemon(t)
	d.mustStart("PALYRA_CONSOLE_PUSH=mailto:you@your.domain")
	p := pairedBrowser(t, d, "owner")
	p.authenticator()
	p.addPasskey(d)
	if os.Getenv("PALYRA_PICTURES") != "" { // of tiers that were tried out, in all of them
		_, err := d.client(client.OperatorDoor).RunDoctor(t.Context())
		must(t, err)
	}
	agent := d.client(client.AgentDoor)
	for name, press := range map[string]string{"notes.txt": "Allow for this session", "secret.txt": "Deny"} {
		ch := propose(t.Context(), agent, write(d.work, name, "What the agent wrote.\n"))
		p.choose(d)
		p.click(press)
		<-ch
	}
	for range 3 { // which nobody is asked about
		_, err := agent.Call(t.Context(), echo("hello"), nil)
		must(t, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ch := propose(ctx, agent, write(d.work, "deploy.sh", "#!/bin/sh\nset -eu\nnpm ci\nnpm run build\nrsync -a dist/ web:/srv/www/\n"))
	a := d.pending(d.client(client.OperatorDoor))
	for _, colours := range []string{"light", "dark"} {
		for screen, size := range map[string][2]int{"desktop": {1280, 800}, "phone": {390, 844}} {
			p.looks(size[0], size[1], screen == "phone", colours)
			for name, shows := range consoleSections {
				p.goTo(name)
				if name == "approvals" {
					p.goTo("approvals/" + string(a.ID))
					shows = "npm run build"
				}
				p.shows(shows)
				p.until("![...document.querySelectorAll('[role=status]')].some(e => e.textContent.startsWith('Asking'))")
				p.fits(name + ", " + screen + ", " + colours)
				p.axe(name + ", " + screen + ", " + colours)
				if dir := os.Getenv("PALYRA_PICTURES"); dir != "" {
					p.picture(filepath.Join(dir, "console-"+name+"-"+screen+"-"+colours+".webp"))
				}
			}
		}
	}
	cancel()
	if r := <-ch; r.out.Outcome == palyra.OutcomeFinished {
		t.Errorf("%+v", r.out)
	}
	p.clean()
}

// fits fails the test when the page has to be moved sideways.
func (p *page) fits(name string) {
	p.t.Helper()
	var over int
	must(p.t, p.js("document.documentElement.scrollWidth - document.documentElement.clientWidth", &over))
	if over > 0 {
		p.t.Errorf("%s: %d pixels wider than the screen", name, over)
	}
}
