package approval

import (
	"strconv"
	"strings"

	"palyra"
)

// maxResource bounds the resource in a subject id.
const maxResource = 512

// subjects maps policy's actions to subject types, most specific first. An
// action ending in a dot stands for all that begin with it.
var subjects = []struct {
	action string
	is     palyra.SubjectType
}{
	{string(palyra.PermitVaultUse), palyra.SubjectSecret},
	{"channel.send", palyra.SubjectChannel},
	{"node.invoke", palyra.SubjectNode},
	{"browser.act", palyra.SubjectBrowser},
	{"device.", palyra.SubjectPairing},
	{"cron.", palyra.SubjectCron},
	{"policy.", palyra.SubjectPolicy},
	{"skill.", palyra.SubjectSkill},
	{"effects.", palyra.SubjectEffects},
	{"tool.", palyra.SubjectTool},
}

// subjectOf names what the question is about: the most specific pair that asks.
func subjectOf(c *palyra.Call) (palyra.SubjectType, string) {
	is, resource := palyra.SubjectTool, c.Plan.Resource()
	if pair, t, ok := specific(c.Verdict.Pairs); ok && t != palyra.SubjectTool {
		is, resource = t, entityName(pair.Resource)
	}
	return is, string(is) + ":" + palyra.Clip(resource, maxResource) + "#" + string(c.Digest)
}

func specific(pairs []palyra.PairResult) (palyra.Pair, palyra.SubjectType, bool) {
	for _, s := range subjects {
		for _, p := range pairs {
			if p.Effect == palyra.Ask && (p.Action == s.action || strings.HasSuffix(s.action, ".") && strings.HasPrefix(p.Action, s.action)) {
				return p.Pair, s.is, true
			}
		}
	}
	return palyra.Pair{}, "", false
}

// entityName takes the name out of a policy entity: Secret::"github" → github. What is not one stays as it is.
func entityName(entity string) string {
	_, quoted, ok := strings.Cut(entity, `::"`)
	if !ok {
		return entity
	}
	name, err := strconv.Unquote(`"` + quoted)
	if err != nil {
		return entity
	}
	return name
}
