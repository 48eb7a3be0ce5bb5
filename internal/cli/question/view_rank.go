package question

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/show"
)

// Short words that stand for a warning where there is no room for it. None of them is the agent's.
const (
	wrongDigest    = "WRONG DIGEST"
	noSandbox      = "NO SANDBOX"
	newPlace       = "NEW workspace"
	unenforced     = "NOT enforced"
	privateHost    = "private host "
	liveInput      = "input is LIVE"
	contentUnseen  = "content NOT SHOWN"
	argumentUnseen = "argument NOT SHOWN"
	agentInside    = "agent inside"
	everywhere     = "EVERY workspace"
	agentAt        = "agent in "
	unsealed       = "NOTHING sealed"
	opensSeals     = "opens seals"
	misleading     = "misleading characters"
)

// alarms are how the short words of warnings begin, the gravest first; any other stands before misleading characters.
var alarms = []string{
	wrongDigest, noSandbox, newPlace, unenforced, privateHost, liveInput, contentUnseen, argumentUnseen, agentInside, everywhere,
	agentAt, unsealed, opensSeals,
}

// alarmRank is how grave a warning is, by its short words; 0 is gravest.
func alarmRank(brief string) int {
	if i := slices.IndexFunc(alarms, func(word string) bool { return strings.HasPrefix(brief, word) }); i >= 0 {
		return i
	}
	if brief == misleading {
		return len(alarms) + 1
	}
	return len(alarms)
}

// warned folds the warnings into one part where the last of them stood, the gravest first. Those of a kind are one entry: no
// number of them takes the room of another kind.
func warned(parts []part) []part {
	is := func(p part) bool { return p.tone == alarm && p.label != riskLabel && p.label != "NOT SHOWN" }
	var list []part
	for _, p := range parts {
		if is(p) {
			text := strings.TrimPrefix(p.text(), warning+": ")
			if p.label != "" && p.label != warning {
				text = p.label + ": " + text
			}
			list = append(list, part{texts: []string{text}, briefs: []string{p.brief(0)}})
		}
	}
	slices.SortStableFunc(list, func(a, b part) int { return cmp.Compare(alarmRank(a.briefs[0]), alarmRank(b.briefs[0])) })
	one := part{label: warning, tone: alarm}
	for len(list) > 0 {
		kind := kindOf(list[0].briefs[0])
		n := 1
		for n < len(list) && kindOf(list[n].briefs[0]) == kind {
			n++
		}
		var texts, briefs []string
		for _, p := range list[:n] {
			texts = append(texts, p.texts[0])
			if b := p.briefs[0]; !slices.Contains(briefs, b) {
				briefs = append(briefs, b)
			}
		}
		brief := briefs[0]
		switch {
		case kind == unenforced:
			for _, b := range briefs[1:] {
				brief += " " + strings.TrimPrefix(b, unenforced+": ")
			}
		case len(briefs) > 1:
			brief += fmt.Sprintf(" and %d more", len(briefs)-1)
		}
		one.add(strings.Join(texts, ", "), brief)
		list = list[n:]
	}
	if len(one.texts) == 0 {
		return parts
	}
	at, last := len(parts), 0
	for i, p := range parts {
		if is(p) {
			at = i
		}
	}
	return slices.DeleteFunc(slices.Concat(parts[:at], []part{one}, parts[at+1:]), func(p part) bool {
		last++
		return last != at+1 && is(p)
	})
}

// kindOf is the kind of a warning: those that differ in an outside text only are of one.
func kindOf(brief string) string {
	for _, k := range []string{unenforced, privateHost, agentAt} {
		if strings.HasPrefix(brief, k) {
			return k
		}
	}
	return brief
}

// gravestFirst orders a list so that one of every grave kind stands before the second of any, and all of them before the rest,
// whose kind is below zero.
func gravestFirst[T any](list []T, kind func(T) int) []T {
	type place struct {
		turn, kind int
		it         T
	}
	places, turns := make([]place, len(list)), map[int]int{}
	for i, it := range list {
		k := kind(it)
		places[i] = place{turns[k], k, it}
		if turns[k]++; k < 0 {
			places[i].turn = len(list)
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Or(cmp.Compare(a.turn, b.turn), cmp.Compare(a.kind, b.kind)) })
	out := make([]T, len(list))
	for i, p := range places {
		out[i] = p.it
	}
	return out
}

// ranked puts the paths first that a risk factor of these names is about, in the short view.
func (v *View) ranked(paths []string, factors ...string) []string {
	p, risks := v.Approval.Plan, v.Approval.Prompt.Risk.Factors
	if !v.Short {
		return paths
	}
	return gravestFirst(paths, func(at string) int {
		for i, f := range factors {
			if slices.Contains(risks, palyra.Clip(f+": "+at, 256)) {
				return i
			}
		}
		if !filepath.IsLocal(at) || slices.Contains(p.Guarded, at) {
			return len(factors)
		}
		return -1
	})
}

// hostKind is what is grave about a host; -1: nothing.
func hostKind(hostPort string) int {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	a, err := netip.ParseAddr(host)
	switch {
	case err == nil && (a.Unmap().IsLinkLocalUnicast() || slices.Contains(metadata, a.Unmap().String())), strings.HasPrefix(host, "metadata."):
		return 0
	case private(hostPort):
		return 1
	case strings.HasPrefix(host, "*"):
		return 2
	case err == nil:
		return 3
	}
	return -1
}

// metadata are addresses where a cloud answers a machine with its keys, beyond those that are local to a link.
var metadata = []string{"fd00:ec2::254", "100.100.100.200", "168.63.129.16"}

// variableKind is what is grave about a variable of a call; -1: nothing.
func variableKind(e palyra.EnvVar) int {
	name := strings.ToUpper(e.Name)
	switch {
	case slices.Contains([]string{"LD_PRELOAD", "LD_AUDIT", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES"}, name):
		return 0
	case name == "PATH":
		return 1
	case strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "DYLD_"), strings.HasPrefix(name, "GIT_"), slices.Contains(runners, name):
		return 2
	case e.Secret:
		return 3
	}
	return -1
}

// runners are variables that make programs run what they say.
var runners = []string{
	"BASH_ENV", "ENV", "IFS", "SHELL", "EDITOR", "VISUAL", "PAGER", "NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME",
	"PERL5OPT", "PERL5LIB", "RUBYOPT", "RUBYLIB", "JAVA_TOOL_OPTIONS", "RUSTC_WRAPPER", "MAKEFLAGS", "HTTPS_PROXY", "HOME",
}

// Lengths of what stands for an outside text where there is no room.
const (
	briefText  = 40
	briefHost  = 32
	briefValue = 24
)

// pinched is a safe text of at most n characters, without its middle.
func pinched(safe string, n int) string {
	runes := []rune(safe)
	if len(runes) <= n {
		return safe
	}
	return string(runes[:n/2]) + "⋯" + string(runes[len(runes)-(n-n/2-1):])
}

// briefPath is a path without its first directories. A name that is too long alone loses its middle.
func briefPath(raw string) string {
	if whole := show.Arg(raw); len(whole) <= briefText {
		return whole
	}
	for i := range len(raw) {
		if raw[i] != '/' {
			continue
		}
		if rest := show.Arg(raw[i:]); len(rest) < briefText {
			return "…" + rest
		}
	}
	base := raw[strings.LastIndexByte(raw, '/')+1:]
	if base == raw {
		return pinched(show.Arg(raw), briefText)
	}
	return "…/" + pinched(show.Arg(base), briefText-2)
}

// riskPart is the level and its factors, as they are ranked. Factors of a name are one entry: no number of them takes the
// room of another.
func riskPart(level string, factors []string, how tone) part {
	var names []string
	details := map[string][]string{}
	for _, f := range factors {
		name, detail, has := strings.Cut(f, ": ")
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			name, has = f, false
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		if has {
			details[name] = append(details[name], detail)
		}
	}
	if i := slices.Index(names, "egress"); i >= 0 { // the hosts stand elsewhere
		names = append(slices.Delete(names, i, i+1), "egress")
	}
	one := part{label: riskLabel, tone: how}
	for i, name := range names {
		text, brief := show.Line(name), pinched(show.Line(name), briefText)
		if d := details[name]; len(d) > 0 {
			var lines []string
			for _, x := range d {
				lines = append(lines, show.Line(x))
			}
			text, brief = text+": "+strings.Join(lines, ", "), brief+": "+briefPath(d[0])
			if len(d) > 1 {
				brief += fmt.Sprintf(" and %d more", len(d)-1)
			}
		}
		if i == 0 {
			text, brief = level+": "+text, level+": "+brief
		}
		one.add(text, brief)
	}
	if len(names) == 0 {
		one.add(level, "")
	}
	return one
}
