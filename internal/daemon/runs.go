package daemon

import (
	"context"
	"time"

	"palyra"
	"palyra/internal/agent"
	"palyra/internal/agent/anthropic"
	"palyra/internal/agent/openai"
	"palyra/internal/agent/scripted"
	"palyra/internal/config"
	"palyra/internal/limit"
	"palyra/internal/provider"
	"palyra/internal/run"

	runsvc "palyra/internal/rpc/runs"
)

// openRuns puts the agent's loop on the calls.
func (d *Daemon) openRuns(p *path) (err error) {
	sources, err := provider.Sources(d.Settings, kinds(), d.vault, d.Mask, d.Log)
	if err != nil {
		return err
	}
	m := d.Settings.Models
	p.models, err = agent.NewModels(agent.ModelsConfig{
		Sources: sources, Default: m.Default, Tools: p.catalog, Artifacts: d.files, Log: d.Log, Mask: d.Mask,
		ContextBytes: int(m.ContextBytes), ResultBytes: int(m.ResultBytes), MaxTurns: m.MaxTurns, AnswerTokens: m.AnswerTokens,
	})
	if err != nil {
		return err
	}
	providers := p.models.Providers()
	providers["scripted"] = scripted.New
	loop, err := agent.New(agent.Config{Providers: providers, Tools: p.catalog})
	if err != nil {
		return err
	}
	c := d.Settings.ToolCall
	p.runs, err = run.NewRuns(run.RunsConfig{
		DB: d.db, Journal: d.journal, Calls: p.calls, Sessions: d.sessions, Driver: loop, Now: now, Log: d.Log,
		Limits: palyra.Budget{Calls: c.MaxCallsPerRun, WallMS: c.RunTimeoutMS, OutputBytes: c.RunOutputBytes, Parallel: c.ParallelCalls},
		Pace:   func(id palyra.RunID) (time.Duration, bool) { return d.limits.Take(limit.Propose, "run:"+string(id)) },
	})
	return err
}

// kinds are the wire formats of models, each by its official library.
func kinds() map[string]provider.Kind {
	return map[string]provider.Kind{
		"openai": {URL: openai.DefaultURL, Sign: openai.Sign, Make: func(u string, w *agent.Wire) agent.Model { return openai.New(u, w) }},
		"anthropic": {URL: anthropic.DefaultURL, Sign: anthropic.Sign, Make: func(u string,
			w *agent.Wire,
		) agent.Model {
			return anthropic.New(u, w)
		}},
	}
}

// runsPart gives runs to the doors.
type runsPart struct {
	*run.Runs
	models *agent.Models
	may    []string // principals that may start runs of models
}

// Start implements the door's Runs. A run that names no provider gets that of its model.
func (p runsPart) Start(ctx context.Context, r runsvc.StartRequest) (_ palyra.Run, err error) {
	if r.Provider, err = p.models.Resolve(r.Provider, []byte(r.Input)); err != nil {
		return palyra.Run{}, err
	}
	if r.Provider != "scripted" && !config.Match(p.may, string(r.Principal)) {
		return palyra.Run{}, palyra.Errorf(palyra.Denied, palyra.ReasonPermission, "%s may not start runs of models", r.Principal).
			WithRemedy("the operator can add it to models.principals in the configuration")
	}
	return p.Runs.Start(ctx, run.StartRequest{
		Principal: r.Principal, Owner: r.Owner, PeerUID: r.PeerUID, Surface: r.Surface, Provider: r.Provider,
		Input: p.models.Masked(r.Provider, []byte(r.Input)), Title: r.Title,
		Workspace: r.Workspace, Session: palyra.SessionID(r.Session), Key: r.Key, Budget: r.Budget, NoWait: r.NoWait, Within: r.Within,
		Credential: r.Credential,
	})
}
