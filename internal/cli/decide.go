package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/client"
	"palyra/internal/cli/execute"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/question"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/cli/terminal"
	"palyra/internal/show"
)

// answerWords are the answers that there are.
var answerWords = []string{
	"allow", "allow-edits", "allow-reads", "allow-host", "allow-group", "allow-commits", "allow-remote", "allow-pushes",
	"deny",
}

func approvalsDecideCommand(inv *invocation.Invocation) *cobra.Command {
	var r client.DecideRequest
	var scope, digest string
	var ttl screen.SpanFlag
	cmd := &cobra.Command{
		Use: "decide ID " + strings.Join(answerWords, "|"), Short: "Answer an approval", Args: takesDecision,
		ValidArgsFunction: completeDecide(inv),
		Long: "Signs your answer with your operator key. The answer echoes the digest of the plan\n" +
			"it is about. On a terminal the plan is always shown first, and you type the word;\n" +
			"a --digest must then be that of the plan shown. Anywhere else --digest is required,\n" +
			"but for deny.\n\n" +
			"Some answers go further than this call, where the approval offers them: allow-edits\n" +
			"lets the agent go on editing files of the workspace, allow-reads lets it read the rest\n" +
			"of a directory outside. Both hold for 8 hours (--ttl) and end with the session; what\n" +
			"other programs obey (.envrc, .git, …), hidden names, removals and whatever is riskier\n" +
			"is asked about all the same. allow-host lets it fetch any page of a host in this session,\n" +
			"where it sends nothing but the address. allow-group lets it reach all hosts of a group\n" +
			"(npm, pypi, go, crates, debian, or one of [groups] in the configuration) from this\n" +
			"workspace, in any of its sessions, for 8 hours. allow-commits signs further commits on the\n" +
			"same branch of this workspace with the same key, in this session; --uses says how many.\n" +
			"allow-remote connects git to the same repository again, and allow-pushes pushes to the same\n" +
			"branch there, where nothing is lost by it.\n" +
			"'palyra leases revoke' ends them.",
		Example: "  palyra approvals decide 01J9Z8Q2V5T6Y7W8X9A0B1C2D3 allow\n" +
			"  palyra approvals decide ID allow-edits\n" +
			"  palyra approvals decide ID allow-commits --uses 50 --ttl 2h\n" +
			"  palyra approvals decide ID allow-pushes --uses 10 --ttl 1h\n" +
			"  palyra approvals decide ID allow --scope timeboxed --ttl 30m --widen path_root\n" +
			"  palyra approvals decide ID deny --reason 'not today'",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.ID, r.Answer = palyra.ApprovalID(args[0]), palyra.Answer(args[1])
			r.Scope, r.TTL, r.Digest, r.Method = palyra.Scope(scope), time.Duration(ttl), palyra.Digest(digest), palyra.MethodCLI
			r, err := question.Widely(r)
			if err != nil {
				return exit.Usagef("%v", err)
			}
			if err := checkDecision(r); err != nil {
				return err
			}
			return decide(cmd.Context(), inv, r)
		},
	}
	f := cmd.Flags()
	f.StringVar(&scope, "scope", "", "how far an allow reaches: once, session or timeboxed (default once)")
	f.Var(&ttl, "ttl", "how long a timeboxed allow lasts: 30m, 2h, 1d")
	f.StringVar(&r.Widen, "widen", "", "one of the generalisations the approval offers (default: exactly this plan)")
	f.Int64Var(&r.Uses, "uses", 0, "how often a session or timeboxed allow may be used (default: no count)")
	f.StringVar(&r.Reason, "reason", "", "why; the agent sees it")
	f.StringVar(&digest, "digest", "", "the plan digest you saw")
	fixed := func(values ...string) cobra.CompletionFunc {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	_ = cmd.RegisterFlagCompletionFunc("scope", fixed("once", "session", "timeboxed"))
	return cmd
}

// takesDecision checks the arguments of decide; an answer alone lacks the id.
func takesDecision(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && slices.Contains(answerWords, args[0]) {
		return exit.Usagef("ID is missing; 'palyra approvals list --pending' has them")
	}
	return syntax.Takes("ID", "ANSWER")(cmd, args)
}

// checkDecision refuses an answer that the daemon would refuse as well, in terms of the command line.
func checkDecision(r client.DecideRequest) error {
	switch {
	case r.Answer != palyra.AnswerAllow && r.Answer != palyra.AnswerDeny:
		return exit.Usagef("%q is not an answer: %s", string(r.Answer), strings.Join(answerWords, ", "))
	case r.Answer == palyra.AnswerDeny && (r.Scope != "" || r.TTL != 0 || r.Widen != "" || r.Uses != 0):
		return exit.Usagef("--scope, --ttl, --widen and --uses belong to an allow")
	case r.Digest != "" && !r.Digest.Valid():
		return exit.Usagef("--digest must be sha256: and 64 hex digits")
	case r.Uses < 0:
		return exit.Usagef("--uses must not be negative")
	}
	switch r.Scope {
	case "", palyra.ScopeOnce, palyra.ScopeSession:
		if r.TTL != 0 && r.Scope != palyra.ScopeSession {
			return exit.Usagef("--ttl belongs to --scope timeboxed")
		}
	case palyra.ScopeTimeboxed:
		if r.TTL == 0 {
			return exit.Usagef("--scope timeboxed needs --ttl")
		}
	default:
		return exit.Usagef("%q is not a scope: once, session or timeboxed", string(r.Scope))
	}
	return nil
}

// decide answers an approval. Without a digest a person must have seen the plan and typed the word.
func decide(ctx context.Context, inv *invocation.Invocation, r client.DecideRequest) error {
	c, err := inv.Operator()
	if err != nil {
		return err
	}
	defer c.Close()
	if r.Digest == "" && !inv.Interactive() {
		p, err := c.Approval(ctx, r.ID)
		switch {
		case err != nil:
			return err
		case !p.Pending():
			return palyra.Errorf(palyra.Conflict, palyra.ReasonAlreadyDecided, "%s was already decided: %s", r.ID, question.Ending(p)).
				WithRemedy("no other answer counts any more; see '%s approvals show %s'", inv.Own(), r.ID)
		case r.Answer == palyra.AnswerDeny: // nobody has to see what nobody gets
			r.Digest = p.PlanDigest
			return send(ctx, inv, c, r)
		}
		return exit.Usagef("--digest is required where nobody can be shown the plan: read `%s approvals show %s`, and answer with --digest %s",
			inv.Own(), r.ID, p.PlanDigest)
	}
	if inv.Interactive() {
		if r.Digest, err = shownDigest(ctx, inv, c, r); err != nil {
			return err
		}
	}
	return send(ctx, inv, c, r)
}

// shownDigest shows the plan to the person, who types the word, and returns its digest. A digest
// that was given must be the same.
func shownDigest(ctx context.Context, inv *invocation.Invocation, c *client.Client, r client.DecideRequest) (palyra.Digest, error) {
	p, err := execute.PendingApproval(ctx, inv, c, r.ID)
	if err != nil {
		return "", err
	}
	if r.Digest != "" && r.Digest != p.PlanDigest {
		return "", palyra.Errorf(palyra.Conflict, palyra.ReasonStaleDigest, "%s is about the plan %s, not about the one of --digest", r.ID,
			p.PlanDigest).
			WithRemedy("leave --digest out and look at the plan")
	}
	if err := question.CheckOffered(p, r); err != nil {
		return "", err
	}
	if p.Need.Fresh && r.Scope != "" && r.Scope != palyra.ScopeOnce { // nobody types the word for nothing
		return "", exit.Failedf(palyra.ReasonMalformedInput, "this is asked about each time, so --scope %s is not offered; nothing was decided",
			r.Scope).
			WithRemedy("leave --scope out")
	}
	execute.ViewApproval(inv, inv.Stderr, p, inv.Separation())
	terminal.Drain() // keys typed before the plan was on the screen are no answer to it
	prompt := fmt.Sprintf("Type %s to %s %s, anything else to leave it: ", question.Word(r), r.Answer, question.Reach(r))
	typed, err := terminal.AskLine(ctx, prompt)
	if err != nil {
		return "", err
	}
	if typed != question.Word(r) {
		return "", exit.Failedf(palyra.ReasonCancelled, "nothing was decided")
	}
	return p.PlanDigest, nil
}

// send signs and sends an answer and prints the approval as it then stands.
func send(ctx context.Context, inv *invocation.Invocation, c *client.Client, r client.DecideRequest) error {
	if r.Answer == palyra.AnswerAllow && r.Scope == "" {
		r.Scope = palyra.ScopeOnce
	}
	if r.Widen == palyra.WidenGroup {
		p, err := c.Approval(ctx, r.ID)
		if err == nil {
			err = question.CheckOffered(p, r)
		}
		if err != nil {
			return err
		}
		r = question.Named(p, r)
	}
	p, err := c.Decide(ctx, r)
	return inv.Answer(err, approvalOf(p), func(w io.Writer) { fmt.Fprintln(w, settled(p)) })
}

// settled describes the state of an approval in one line.
func settled(p palyra.Approval) string {
	if p.Pending() {
		return fmt.Sprintf("%s: your answer is recorded; %d of %d so far", show.Line(string(p.ID)), len(p.Votes), max(p.Need.Votes, 1))
	}
	text := fmt.Sprintf("%s: %s", show.Line(string(p.ID)), show.Line(question.Ending(p)))
	if p.Decision.Scope != "" {
		text += ", scope " + show.Line(string(p.Decision.Scope))
	}
	if p.Decision.Lease != "" {
		text += ", lease " + show.Line(string(p.Decision.Lease))
	}
	return text
}
