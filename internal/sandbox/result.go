package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"palyra"
	"palyra/internal/dotenv"
	"palyra/internal/sandbox/cage"
	"palyra/internal/sandbox/hint"
)

// The reasons why a run was stopped from outside, as attestations have them.
const (
	stopWall   = "wall_clock"
	stopCancel = "cancelled"
	stopOutput = "output"
	cellLost   = "cell_lost"
)

// refused is the result of a run that did not start. The caller gets the reason; its cause goes to the log.
func (r *Runner) refused(begun time.Time, call palyra.CallID, err error) palyra.Result {
	layer := palyra.LayerTier
	e := palyra.AsError(err)
	switch e.Reason {
	case palyra.ReasonEgressDenied:
		layer = palyra.LayerEgress
	case palyra.ReasonQuotaExceeded:
		layer = palyra.LayerLimit
	}
	if e.Cause != nil && e.Reason != palyra.ReasonPlanChanged {
		r.Log.Warn("a run was not started", "call", string(call), "reason", string(e.Reason), "err", e.Cause)
	}
	refusal := palyra.RefusalOf(layer, e)
	return palyra.Result{Refusal: &refusal, Started: begun, Finished: r.Now()}
}

// notStarted turns a backend's error into one for people.
func notStarted(ctx context.Context, p palyra.Plan, err error) error {
	e := (*palyra.Error)(nil)
	if errors.As(err, &e) && (ctx.Err() == nil || e.Reason != palyra.ReasonSpawnFailed) { // a start that was called off did not fail
		return err
	}
	if err := p.Stopped(ctx, ctx.Err()); errors.As(err, new(*palyra.Error)) {
		return err
	}
	if e != nil {
		return err
	}
	return palyra.Errorf(palyra.Unavailable, palyra.ReasonSpawnFailed, "the program could not be started").
		WithRemedy("see the daemon's log").WithCause(err)
}

// result makes the result of a run.
func (l *runStart) result(started time.Time, p *pump, exit Exit, err error) palyra.Result {
	res := palyra.Result{
		Executor: l.backend.Executor(), Started: started, Finished: l.Now(),
		Egress: l.flows, Omitted: l.more, Quarantined: exit.Quarantined, More: exit.More, Left: exit.Remnants,
		ExitCode: exit.Code, Signal: exit.Signal, Usage: exit.Usage, Enforcement: l.held(exit.Enforcement),
	}
	if exit.Signal != "" {
		res.ExitCode = signalExit(exit)
	}
	if exit.Needed != nil {
		res.Runtime = &palyra.Runtime{Used: exit.Needed}
	}
	var cutOut, cutErr bool
	forOut, forErr := shares(outputCap(l.plan.Limits), p.stdout.total, p.stderr.total)
	res.Stdout, cutOut = p.stdout.bytes(forOut)
	res.Stderr, cutErr = p.stderr.bytes(forErr)
	res.Truncated = cutOut || cutErr
	res.StdoutDigest, res.StderrDigest = p.stdout.digest(), p.stderr.digest()
	res.Usage.WallMS = res.Finished.Sub(started).Milliseconds()
	res.Usage.BytesIn, res.Usage.BytesOut = p.fed.Load(), p.emitted.Load()
	if l.Posture != nil {
		res.Posture, _ = l.Posture(l.plan.Tier)
	}
	l.blame(&res, p, exit, err)
	l.settled(&res, exit)
	if res.Failure == nil {
		if h := hint.Explain(l.plan, &res, l.maskedPaths(), dotenv.ShowValues); h != nil {
			f := palyra.RefusalOf(palyra.LayerTier, h)
			res.Failure = &f
		}
	}
	return res
}

// signalExit is the exit code that shells give for a signal.
func signalExit(e Exit) int {
	if n := signalNumber(e.Signal); n > 0 {
		return 128 + n
	}
	if e.Code != 0 {
		return e.Code
	}
	return 255 // a signal without a number is no success either
}

// blame sets what ended a run that did not end by itself. A stop comes before a limit: limits can
// also be reached while a program is being stopped.
func (l *runStart) blame(res *palyra.Result, p *pump, exit Exit, err error) {
	fail := func(layer palyra.Layer, reason string, e *palyra.Error) {
		f := palyra.RefusalOf(layer, e)
		res.Failure, res.KillReason = &f, palyra.Stop(reason)
	}
	switch {
	case err != nil && palyra.AsError(err).Reason == palyra.ReasonSealDenied: // it ran, and the sweep after it failed
		l.Log.Error("the workspace could not be looked through after a run", "call", string(l.call), "err", err)
		fail(palyra.LayerTier, "seals", palyra.AsError(err))
		res.ExitCode = cmp.Or(res.ExitCode, palyra.ExitUnknown)
	case err != nil:
		l.Log.Error("a cell was lost", "call", string(l.call), "err", err)
		fail(palyra.LayerTier, cellLost, palyra.Errorf(palyra.Unavailable, palyra.ReasonInterrupted, "the cell was lost; the run was ended").
			WithRemedy("see what it did before you propose it again"))
		res.ExitCode = cmp.Or(res.ExitCode, palyra.ExitUnknown) // it is not known how the program ended
	case exit.Stopped == stopWall:
		res.TimedOut = true
		fail(palyra.LayerLimit, stopWall, l.plan.TimedOut())
	case exit.Stopped == stopCancel:
		res.Cancelled = true
		fail(palyra.LayerTier, stopCancel, palyra.CallWasCancelled())
	case p.overLimit(): // by count, so that a program that ends just before it is stopped is treated the same
		fail(palyra.LayerLimit, stopOutput, quota(stopOutput, l.plan.Limits))
	case exit.Limit != "":
		fail(palyra.LayerLimit, exit.Limit, quota(exit.Limit, l.plan.Limits))
	case exit.Stopped != "":
		fail(palyra.LayerTier, exit.Stopped, palyra.CallWasCancelled())
	default:
		if lacks := Lacks(l.plan.Enforcement, res.Enforcement); len(lacks) > 0 { // the backend broke its promise
			l.Log.Error("less held than was promised", "call", string(l.call), "missing", lacks)
			fail(palyra.LayerTier, "", palyra.Errorf(palyra.Unavailable, palyra.ReasonWeakEnforcement,
				"less held during the run than was promised: %s", fewNames(lacks)).
				WithRemedy("see the daemon's log"))
		}
	}
}

// quota is the error for the limit that ended a run.
func quota(limit string, l palyra.Limits) *palyra.Error {
	text, remedy := fmt.Sprintf("ended by its %s limit", show(limit)), "ask for less at once"
	name := map[string]struct{ text, key string }{
		"memory":    {fmt.Sprintf("memory limit of %d bytes", l.MemoryBytes), "memory_bytes"},
		"processes": {fmt.Sprintf("limit of %d processes", l.Processes), "processes"},
		"cpu":       {fmt.Sprintf("CPU limit of %d ms", l.CPUMS), "cpu_ms"},
		"disk":      {fmt.Sprintf("limit of %d bytes written to disk, or for the little that was left free there", l.DiskBytes), "disk_bytes"},
		"file_size": {fmt.Sprintf("file size limit of %d bytes", l.FileBytes), "file_bytes"},
		stopOutput:  {fmt.Sprintf("limit of %d printed bytes", l.EmittedBytes), "emitted_bytes"},
	}[limit]
	if name.text != "" {
		text, remedy = "ended by its "+
			name.text, fmt.Sprintf("ask for less at once, or for a higher limits.%s where the configuration allows it", name.key)
	}
	switch limit {
	case "all_stages_bytes":
		return StagesFull()
	case "stage_bytes", "stage_names":
		text, remedy = fmt.Sprintf("ended because it had more on its layer than is kept (%s)",
			limit), fmt.Sprintf("write less at once, or have process.%s raised in the configuration", limit)
	}
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonQuotaExceeded, "%s", text).WithRemedy("%s", remedy)
}

// held is the enforcement that the backend reports, and this package's own. A backend that reports
// nothing claims nothing.
func (l *runStart) held(e palyra.Enforcement) palyra.Enforcement {
	e.Mode = cmp.Or(e.Mode, palyra.NetworkOpen)
	if e.Limits == nil {
		e.Limits = map[string]palyra.Hold{}
	}
	e = l.ours(l.backend, e)
	if l.plan.Executable.Sealed && !slices.Contains(e.Mechanisms, Sealed) {
		e.Mechanisms = append(e.Mechanisms, Sealed)
	}
	e.Mechanisms = append(e.Mechanisms, l.lent...)
	if l.job.Cage != nil {
		e.Mechanisms = append(e.Mechanisms, cage.Own(l.plan.Enforcement.Mechanisms)...)
	}
	if l.masked() { // it would not have begun otherwise
		e.Mechanisms = append(e.Mechanisms, Masked)
	}
	slices.Sort(e.Mechanisms)
	return e
}
