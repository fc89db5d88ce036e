package bench

// Workspace is the suite of the Workspace surface.
func Workspace() Suite { return Suite{"workspace", "Workspace", workspaceScenarios, workspaceLimits} }

var workspaceScenarios = []scenario{
	{"message", true, measureMessages},
	{"deliver-loaded", false, measureLoadedDelivery},
	{"deliver-single", false, measureSingleDelivery},
	{"deliver-wide", false, measureWideDelivery},
	{"gateway-idle", false, measureGatewayIdle},
	{"catch-up", true, measureCatchUp},
	{"resume", true, measureResume},
	{"permission", false, measurePermission},
	{"screen", false, measureScreen},
}

// workspaceLimits is what the figures do not say by themselves.
const workspaceLimits = ``
