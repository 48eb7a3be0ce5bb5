package secrets

// services are the variables by which programs of well-known services find their tokens, with where these go.
var services = map[string]Binding{
	"GITHUB_TOKEN":          {Kind: Header, Place: "Authorization", Hosts: []string{"api.github.com:443"}},
	"GH_TOKEN":              {Kind: Header, Place: "Authorization", Hosts: []string{"api.github.com:443"}},
	"GITLAB_TOKEN":          {Kind: Header, Place: "Private-Token", Hosts: []string{"gitlab.com:443"}},
	"NPM_TOKEN":             {Kind: Header, Place: "Authorization", Hosts: []string{"registry.npmjs.org:443"}},
	"NODE_AUTH_TOKEN":       {Kind: Header, Place: "Authorization", Hosts: []string{"registry.npmjs.org:443"}},
	"TWINE_PASSWORD":        {Kind: Basic, Hosts: []string{"upload.pypi.org:443"}},
	"CARGO_REGISTRY_TOKEN":  {Kind: Header, Place: "Authorization", Hosts: []string{"crates.io:443"}},
	"OPENAI_API_KEY":        {Kind: Header, Place: "Authorization", Hosts: []string{"api.openai.com:443"}},
	"ANTHROPIC_API_KEY":     {Kind: Header, Place: "X-Api-Key", Hosts: []string{"api.anthropic.com:443"}},
	"GEMINI_API_KEY":        {Kind: Header, Place: "X-Goog-Api-Key", Hosts: []string{"generativelanguage.googleapis.com:443"}},
	"MISTRAL_API_KEY":       {Kind: Header, Place: "Authorization", Hosts: []string{"api.mistral.ai:443"}},
	"HF_TOKEN":              {Kind: Header, Place: "Authorization", Hosts: []string{"huggingface.co:443"}},
	"STRIPE_SECRET_KEY":     {Kind: Header, Place: "Authorization", Hosts: []string{"api.stripe.com:443"}},
	"STRIPE_API_KEY":        {Kind: Header, Place: "Authorization", Hosts: []string{"api.stripe.com:443"}},
	"SENDGRID_API_KEY":      {Kind: Header, Place: "Authorization", Hosts: []string{"api.sendgrid.com:443"}},
	"SLACK_BOT_TOKEN":       {Kind: Header, Place: "Authorization", Hosts: []string{"slack.com:443"}},
	"SENTRY_AUTH_TOKEN":     {Kind: Header, Place: "Authorization", Hosts: []string{"sentry.io:443"}},
	"CLOUDFLARE_API_TOKEN":  {Kind: Header, Place: "Authorization", Hosts: []string{"api.cloudflare.com:443"}},
	"DIGITALOCEAN_TOKEN":    {Kind: Header, Place: "Authorization", Hosts: []string{"api.digitalocean.com:443"}},
	"VERCEL_TOKEN":          {Kind: Header, Place: "Authorization", Hosts: []string{"api.vercel.com:443"}},
	"NETLIFY_AUTH_TOKEN":    {Kind: Header, Place: "Authorization", Hosts: []string{"api.netlify.com:443"}},
	"LINEAR_API_KEY":        {Kind: Header, Place: "Authorization", Hosts: []string{"api.linear.app:443"}},
	"DATADOG_API_KEY":       {Kind: Header, Place: "Dd-Api-Key", Hosts: []string{"api.datadoghq.com:443"}},
	"DISCORD_TOKEN":         {Kind: Header, Place: "Authorization", Hosts: []string{"discord.com:443"}},
	"TELEGRAM_TOKEN":        {}, // goes into the path, where no binding puts anything
	"AWS_SECRET_ACCESS_KEY": {}, // signs requests, and goes into none
}

// Propose returns the binding that a variable's name suggests for the secret of that name.
func Propose(variable, secret string) (Binding, bool) {
	b, ok := services[variable]
	if !ok || b.Kind == "" {
		return Binding{}, false
	}
	b.Name, b.Secret, b.Scope, b.Env = secret, secret, Global, variable
	return b, true
}
