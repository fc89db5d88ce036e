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
const workspaceLimits = `
- **message**: the cores. Each message is a request with an ES256 proof to verify, the statements of the domain and a share
  of one flush; the clients make their proofs on the same cores.
- **deliver-single**: the system call that writes to each reader. Beside it each receiver is looked up and authorised.
- **deliver-loaded**: includes the requests that write the messages; waiting frames share one write.
- **catch-up**: reading and decoding rows; every event is authorised besides the filter in the statement.
- **resume**: a proof and a token to verify, a sign-in to look up and two statements for each client.
- **screen**: writes, deliveries and the clients that read them share the cores.
`
