package lend

import (
	"crypto/rand"
	"strings"
)

// issuers begin the tokens of well-known services. Programs that look at the beginning of a token see the same in its
// placeholder; what is known to everybody tells nothing of the rest.
var issuers = []string{
	"github_pat_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "glpat-", "sk-ant-", "sk-proj-", "sk-", "npm_", "pypi-", "xoxb-", "xoxp-", "hf_",
	"dckr_pat_", "rubygems_", "SG.", "AIza", "ya29.", "sk_live_", "sk_test_", "rk_live_", "pk_live_",
}

// shortest is how long a placeholder is at least: nobody meets one by chance.
const shortest = 28

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// Placeholder returns what stands for a value in one run: as long, with the same well-known beginning, and otherwise
// random.
func Placeholder(value []byte) string {
	begin := ""
	for _, p := range issuers {
		if len(value) > len(p) && strings.HasPrefix(string(value[:len(p)]), p) {
			begin = p
			break
		}
	}
	n := max(len(value), shortest+len(begin))
	n = min(n, 512) // of a long text, such as a key file, the length matters to nobody
	raw := make([]byte, n-len(begin))
	_, _ = rand.Read(raw) // it never fails
	for i, b := range raw {
		raw[i] = letters[int(b)%len(letters)]
	}
	return begin + string(raw)
}
