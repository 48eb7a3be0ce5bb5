package runs

import (
	"slices"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"

	v1 "palyra/api/gen/palyra/v1"
)

// Bounds on what clients say.
const (
	maxInput = 1 << 20  // what drives a run
	maxText  = 64 << 10 // what is said to one
	maxName  = 1 << 10  // title, key, session, provider
	maxPath  = 4 << 10

	defaultPage = 100
	largestPage = 500
)

// start checks a request and fills in what comes from the credential.
func start(c rpc.Caller, req *v1.StartRunRequest) (StartRequest, error) {
	if err := bounded(req); err != nil {
		return StartRequest{}, err
	}
	switch palyra.Surface(req.GetDoor()) {
	case "", palyra.SurfaceAPI, palyra.SurfaceCLI, palyra.SurfaceMCP, palyra.SurfaceACP, palyra.SurfaceHook:
	default:
		return StartRequest{}, invalid("the surface must be api, cli, mcp, acp or hook")
	}
	b := req.GetBudget()
	budget := palyra.Budget{Calls: b.GetMaxCalls(), WallMS: b.GetWallMs(), OutputBytes: b.GetOutputBytes(), Parallel: b.GetParallel()}
	if min(budget.Calls, budget.WallMS, budget.OutputBytes, budget.Parallel) < 0 {
		return StartRequest{}, invalid("the budget is negative")
	}
	return StartRequest{
		Principal: c.Principal, Owner: c.Owner, PeerUID: c.PeerUID, Surface: c.Door(palyra.Surface(req.GetDoor())), Provider: req.GetProvider(),
		Input: req.GetInput(),
		Title: req.GetTitle(), Workspace: req.GetWorkspace(), Session: req.GetSession(), Key: req.GetKey(), Budget: budget,
		NoWait: req.GetNoWait(), Within: c.Within, Credential: c.CredentialID,
	}, nil
}

// bounded refuses what is longer than anything sensible.
func bounded(req *v1.StartRunRequest) error {
	if len(req.GetInput()) > maxInput {
		return tooLarge("the input of a run", maxInput)
	}
	for _, name := range []string{req.GetTitle(), req.GetKey(), req.GetSession(), req.GetProvider()} {
		if len(name) > maxName {
			return tooLarge("a name", maxName)
		}
	}
	if len(req.GetWorkspace()) > maxPath {
		return tooLarge("the workspace's path", maxPath)
	}
	return nil
}

// filter reads a request to list runs.
func filter(c rpc.Caller, req *v1.ListRunsRequest) (palyra.RunFilter, error) {
	var f palyra.RunFilter
	if err := wire.ToWord(req, &f); err != nil {
		return f, err
	}
	switch f.Reach = c.Reach(); {
	case f.Limit < 0:
		return f, invalid("the limit is negative")
	case f.State != "" && !slices.Contains(palyra.RunStates(), f.State):
		return f, invalid("there is no such state of a run")
	}
	if f.Limit = min(f.Limit, largestPage); f.Limit == 0 {
		f.Limit = defaultPage
	}
	return f, nil
}

func invalid(why string) error {
	return palyra.Errorf(palyra.Invalid, palyra.ReasonMalformedInput, "%s", why)
}

func tooLarge(what string, most int) error {
	return palyra.Errorf(palyra.Exhausted, palyra.ReasonInputTooLarge, "%s is longer than %d bytes", what, most)
}
