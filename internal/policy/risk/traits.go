package risk

import (
	"fmt"
	"strconv"
	"strings"

	"palyra"
)

// Limits of what is told of a command: it stands in prompts.
const (
	maxTraits    = 4
	maxTrait     = 160
	maxTraitPath = 80
)

// Traits says for people why a call does not run by itself: what its words tell, or else where and how it
// runs. These are facts about the call and not reasons of a policy, so they hold under any policies. They
// stand on one line and cannot draw on a screen.
func Traits(p palyra.Plan, c palyra.Command) string {
	if p.Executable.Path == "" && len(p.Argv) == 0 {
		return ""
	}
	list := commandTraits(c)
	if len(list) == 0 {
		list = planTraits(p)
	}
	if more := len(list) - maxTraits; more > 0 {
		list = append(list[:maxTraits], fmt.Sprintf("%d more", more))
	}
	if len(list) == 0 {
		return ""
	}
	return "about this command: " + strings.Join(list, ", ")
}

// commandTraits are what the words of a command tell.
func commandTraits(k palyra.Command) []string {
	var out []string
	if n := len(k.Outside); n > 0 {
		text := "it names a path outside the workspace: " + pathWord(k.Outside[0])
		if n > 1 {
			text += fmt.Sprintf(" and %d more", n-1)
		}
		out = append(out, text)
	}
	for _, why := range k.Why {
		// all of it stays readable, and nothing draws on a screen
		if strings.ContainsFunc(why, func(r rune) bool { return !strconv.IsPrint(r) }) {
			why = strconv.QuoteToASCII(palyra.Clip(why, maxTrait/2))
		}
		out = append(out, palyra.Clip(why, maxTrait))
	}
	switch {
	case len(k.Why) > 0:
	case !k.Understood && k.Class != palyra.CommandDestructive:
		out = append(out, "its words do not tell what it does")
	case k.Class == palyra.CommandDestructive:
		out = append(out, "it cannot be taken back, or reaches beyond this machine")
	case k.Class == palyra.CommandWrite:
		out = append(out, "it changes files")
	case k.Shell:
		out = append(out, "a shell reads it")
	case k.RunsCode:
		out = append(out, "it can run other code")
	}
	return out
}

// planTraits are the reasons why a command that only looks or builds does not run by itself. An unregistered
// workspace is left to the policies to mention.
func planTraits(p palyra.Plan) []string {
	var out []string
	for _, one := range []struct {
		is   bool
		text string
	}{
		{p.Tier != palyra.TierC, "it does not run in the full sandbox (tier C)"},
		{len(p.Egress) > 0, "it may connect to hosts"},
		{len(p.Bindings) > 0, "it gets secrets"},
		{
			p.Tier == palyra.TierC && p.Enforcement.Mode != palyra.NetworkStrict,
			"its network is not held (mode " + pathWord(string(p.Enforcement.Mode)) + ")",
		},
		{p.Stdin == palyra.StdinLive, "it is fed while it runs"},
		{p.Asks, "its profile opens what is sealed otherwise"},
		{p.UnixSockets, "it reaches sockets of this machine"},
		{p.AgentSocket, "it runs as an agent"},
	} {
		if one.is {
			out = append(out, one.text)
		}
	}
	return out
}

// pathWord is a path that shows itself honestly, within a length.
func pathWord(s string) string {
	s = palyra.Clip(s, maxTraitPath)
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r != '~' && UnsafeInWord(r) }) {
		return strconv.QuoteToASCII(s)
	}
	return s
}

// UnsafeInWord reports whether a rune could make a word pass for something else than itself.
func UnsafeInWord(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return false
	}
	return !strings.ContainsRune("-_./=:,+@%^", r)
}
