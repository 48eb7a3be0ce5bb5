package service

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/invocationtest"
	"palyra/internal/cli/questiontest"
	"palyra/internal/config"
)

func sampleStatus() client.Status {
	return client.Status{
		Version: "1.2.3", StateID: "01KA3V3Q6M5D8W0Z1Y2X3C4STA", PID: 42, UID: 1000, StartedAt: questiontest.SampleNow.Add(-26 * time.Hour),
		Home: "/home/ann/.palyra", KeysDir: "/home/ann/.palyra/keys",
		AgentSocket: "/run/agent.sock", OperatorSocket: "/run/operator.sock", JournalSize: 12, JournalOK: false,
		Bundle: questiontest.SampleDigest, Preset: "default",
		Separation: palyra.SeparationNone, Pending: 3, Running: 1, Problems: []string{"the disk is nearly full"},
		Features: map[string]string{"tier_c": "off", "tier_b": "off"},
	}
}

// What up and status tell people, and up to programs.
func TestUpInWords(t *testing.T) {
	paths := config.Paths{OperatorKey: "/home/ann/operator.key"}
	for name, f := range map[string]func(*invocation.Invocation) error{
		"status": func(inv *invocation.Invocation) error { printStatus(inv, inv.Stdout, sampleStatus()); return nil },
		"greeting": func(inv *invocation.Invocation) error {
			return (&daemonStart{inv: inv, paths: paths, log: "/home/ann/palyrad.log"}).greet(sampleStatus(), true)
		},
		"greeting-again": func(inv *invocation.Invocation) error { return (&daemonStart{inv: inv}).greet(sampleStatus(), false) },
	} {
		questiontest.Golden(t, name+".txt", invocationtest.Shown(t, false, f))
	}
	questiontest.Golden(t, "greeting.json", invocationtest.Shown(t, true, func(inv *invocation.Invocation) error {
		return (&daemonStart{inv: inv}).greet(sampleStatus(), true)
	}))
}

func TestStatusIsMadeSafe(t *testing.T) {
	invocationtest.CheckSafe(t, map[string]invocationtest.Printer{"status": func(inv *invocation.Invocation, w io.Writer) error {
		printStatus(inv, w, questiontest.Poisoned[client.Status]())
		return nil
	}})
}

// up and status name what is wrong with a daemon that runs all the same.
func TestUpNamesProblems(t *testing.T) {
	for _, quiet := range []bool{false, true} {
		var out bytes.Buffer
		u := daemonStart{inv: &invocation.Invocation{Stdout: &out, Stderr: &out, Quiet: quiet}}
		if err := u.greet(client.Status{PID: 1, Problems: []string{"tier C cannot be used: there is no bubblewrap"}}, false); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), "PROBLEM: tier C cannot be used: there is no bubblewrap\n") {
			t.Error(out.String())
		}
	}
}
