package trusted

// services run with other people's secrets.
var services = []group{
	{CI, Asked, "GitHub", seen("https://docs.github.com/actions"), []string{".github/"}},
	{CI, Held, "GitHub", seen("https://docs.github.com/actions"), []string{".github/workflows"}},
	{
		CI, Held, "GitHub: actions of the repository itself",
		sought("https://docs.github.com/actions", "the pages on workflows: an action may be anywhere"),
		[]string{".github/actions"},
	},
	{
		CI, Held, "Dependabot",
		read("https://docs.github.com/code-security/dependabot/dependabot-version-updates"),
		[]string{".github/dependabot.yml"},
	},
	{
		CI, Held, "Dependabot, by another ending",
		seen("https://docs.github.com/code-security/dependabot"),
		[]string{".github/dependabot.yaml"},
	},
	{CI, Held, "GitLab", read("https://docs.gitlab.com/ci/quick_start/"), []string{".gitlab-ci.yml"}},
	{
		CI, Held, "GitLab: what its agent for clusters may do",
		read("https://docs.gitlab.com/user/clusters/agent/"),
		[]string{".gitlab/agents"},
	},
	{
		CI, Held, "GitLab Duo: rules, servers and flows",
		seen("https://docs.gitlab.com/user/gitlab_duo/"),
		[]string{".gitlab/duo"},
	},
	{
		CI, Held, "GitLab, where its settings or its file say so",
		sought("https://docs.gitlab.com/ci/yaml/", "its quick start, which has one name"),
		[]string{".gitlab-ci.yaml", ".gitlab/ci"},
	},
	{CI, Held, "CircleCI", read("https://circleci.com/docs/concepts/#configuration"), []string{".circleci"}},
	{CI, Held, "Travis CI", read("https://docs.travis-ci.com/user/tutorial/"), []string{".travis.yml"}},
	{CI, Held, "AppVeyor", read("https://www.appveyor.com/docs/build-configuration/"), []string{
		"appveyor.yml", ".appveyor.yml",
	}},
	{
		CI, Held, "Azure Pipelines",
		read("https://learn.microsoft.com/azure/devops/pipelines/customize-pipeline"),
		[]string{"azure-pipelines.yml"},
	},
	{
		CI, Held, "Azure Pipelines, where the pipeline names it so",
		sought("https://learn.microsoft.com/azure/devops/pipelines/customize-pipeline", "that page: the path is a setting"),
		[]string{".azure-pipelines", "azure-pipelines.yaml", "azure-pipelines.*.yml", ".vsts-ci.yml"},
	},
	{CI, Held, "Jenkins", read("https://www.jenkins.io/doc/pipeline/tour/hello-world/"), []string{"Jenkinsfile"}},
	{
		CI, Held, "Jenkins, where a job names it so",
		sought("https://www.jenkins.io/doc/book/pipeline/jenkinsfile/", "its tour, which has the plain name"),
		[]string{"Jenkinsfile.*", "*.jenkinsfile"},
	},
	{
		CI, Held, "Bitbucket",
		read("https://support.atlassian.com/bitbucket-cloud/docs/custom-configuration-files/"),
		[]string{"bitbucket-pipelines.yml"},
	},
	{CI, Held, "Drone", read("https://docs.drone.io/pipeline/overview/"), []string{
		".drone.yml", ".drone.star", ".drone.jsonnet",
	}},
	{
		CI, Held, "Drone, where its settings say so",
		sought("https://docs.drone.io/pipeline/overview/", "that page, which has the other ending"),
		[]string{".drone.yaml"},
	},
	{CI, Held, "Woodpecker", read("https://woodpecker-ci.org/docs/usage/project-settings"), []string{
		".woodpecker", ".woodpecker.yml", ".woodpecker.yaml",
	}},
	{CI, Held, "Gitea", read("https://docs.gitea.com/usage/actions/quickstart"), []string{".gitea/workflows"}},
	{CI, Held, "Forgejo", seen("https://forgejo.org/docs/latest/user/actions/"), []string{".forgejo/workflows"}},
	{
		CI, Held, "Forgejo, Gitea: actions of the repository itself",
		sought("https://forgejo.org/docs/latest/user/actions/", "Gitea's quick start, which has none"),
		[]string{".forgejo/actions", ".gitea/actions"},
	},
	{
		CI, Held, "Buildkite",
		read("https://buildkite.com/docs/agent/v3/cli-pipeline"),
		[]string{
			".buildkite", "buildkite.yml", "buildkite.yaml", "buildkite.json", "buildkite/pipeline.yml",
			"buildkite/pipeline.yaml", "buildkite/pipeline.json",
		},
	},
	{CI, Held, "TeamCity", read("https://www.jetbrains.com/help/teamcity/kotlin-dsl.html"), []string{".teamcity"}},
	{CI, Held, "Semaphore", read("https://github.com/semaphoreci/semaphore"), []string{".semaphore"}},
	{CI, Held, "Cirrus CI", read("https://cirrus-ci.org/guide/programming-tasks/"), []string{
		".cirrus.yml", ".cirrus.star",
	}},
	{CI, Held, "Pipelines as Code (Tekton)", read("https://pipelinesascode.com/docs/guide/authoringprs/"), []string{
		".tekton",
	}},
	{CI, Held, "sourcehut", seen("https://man.sr.ht/builds.sr.ht/"), []string{".build.yml"}},
	{CI, Held, "Codefresh", read("https://github.com/codefresh-io/cli"), []string{"codefresh.yml"}},
	{
		CI, Held, "Codemagic, Bitrise",
		seen("https://docs.codemagic.io/yaml-basic/yaml-getting-started/"),
		[]string{"codemagic.yaml", "bitrise.yml"},
	},
	{CI, Held, "Wercker", read("https://github.com/wercker/wercker"), []string{"wercker.yml"}},
	{
		CI, Held, "sourcehut, Codefresh: directories of the same",
		sought("https://man.sr.ht/builds.sr.ht/", "stored documentation, which has the files"),
		[]string{".builds", ".codefresh"},
	},
	{
		CI, Noted, "Netlify: what it builds with, once it is pushed",
		read("https://docs.netlify.com/build/configure-builds/file-based-configuration/"),
		[]string{"netlify.toml"},
	},
	{
		CI, Noted, "Vercel: the same",
		read("https://vercel.com/docs/project-configuration"),
		[]string{"vercel.json", "vercel.toml", "now.json"},
	},
	{
		CI, Noted, "Heroku: the same",
		read("https://devcenter.heroku.com/articles/heroku-cli-commands"),
		[]string{"heroku.yml"},
	},
	{CI, Noted, "Render: the same", seen("https://render.com/docs/blueprint-spec"), []string{"render.yaml"}},
	{
		CI, Held, "PR-Agent: what it is told, and does by itself",
		read("https://qodo-merge-docs.qodo.ai/usage-guide/configuration_options/"),
		[]string{".pr_agent.toml"},
	},
	{
		CI, Held, "CodeRabbit",
		read("https://docs.coderabbit.ai/getting-started/configure-coderabbit"),
		[]string{".coderabbit.yaml"},
	},
	{
		CI, Held, "CodeRabbit, by another ending",
		seen("https://docs.coderabbit.ai/getting-started/configure-coderabbit"),
		[]string{".coderabbit.yml"},
	},
	{
		CI, Held, "Cloud Build, CodeBuild, Amplify",
		seen("https://cloud.google.com/build/docs/build-config-file-schema"),
		[]string{"cloudbuild.yaml", "buildspec.yml", "amplify.yml"},
	},
	{
		CI, Held, "Cloud Build, CodeBuild, by other endings",
		sought("https://cloud.google.com/build/docs/build-config-file-schema", "projects, which have the other endings"),
		[]string{"cloudbuild.yml", "cloudbuild.json", "buildspec.yaml"},
	},
	{
		CI, Held, "Zuul",
		read("https://zuul-ci.org/docs/zuul/latest/project-config.html"),
		[]string{".zuul.yaml", ".zuul.d", "zuul.yaml", "zuul.d"},
	},
	{
		CI, Held, "OpenShift's ci-operator: in which image it builds",
		read("https://github.com/openshift/ci-tools"),
		[]string{".ci-operator.yaml"},
	},
	{CI, Held, "Hound", read("https://github.com/houndci/hound"), []string{".hound.yml"}},
	{CI, Held, "LGTM, which has ended", seen("https://github.com/github/codeql"), []string{".lgtm.yml"}},
	{CI, Held, "Screwdriver", read("https://docs.screwdriver.cd/user-guide/configuration/"), []string{
		"screwdriver.yaml",
	}},
	{
		CI, Held, "Screwdriver, by another name",
		sought("https://docs.screwdriver.cd/user-guide/configuration/", "that page, which has the plain name"),
		[]string{".screwdriver.yaml"},
	},
	{CI, Held, "Prow", read("https://docs.prow.k8s.io/docs/inrepoconfig/"), []string{".prow.yaml", ".prow"}},
	{CI, Held, "Read the Docs", read("https://docs.readthedocs.com/platform/stable/config-file/"), []string{
		".readthedocs.yaml", ".readthedocs.yml", "readthedocs.yaml", "readthedocs.yml",
	}},
	{
		CI, Held, "Mergify: what is merged by itself",
		read("https://docs.mergify.com/configuration/file-format/"),
		[]string{".mergify.yml", ".mergify", ".github/mergify.yml"},
	},
	{CI, Held, "EAS Workflows", seen("https://docs.expo.dev/eas/workflows/get-started/"), []string{".eas/workflows"}},
	{
		CI, Held, "Xcode Cloud",
		seen("https://developer.apple.com/documentation/xcode/writing-custom-build-scripts"),
		[]string{"ci_scripts/ci_*.sh"},
	},
	{CI, Held, "Renovate", seen("https://docs.renovatebot.com/configuration-options/"), []string{
		"renovate.json", "renovate.json5", ".renovaterc", ".renovaterc.json", ".renovaterc.json5",
	}},
}
