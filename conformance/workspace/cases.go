package workspace

import "slices"

// cases lists every case, section by section.
func cases() []testCase {
	return slices.Concat(
		logCases(), writeCases(), gatewayCases(), closeCases(), catchupCases(),
		accessCases(), deliveryCases(), messageCases(), personalCases(), walkCases(),
		identityCases(), levelCases(), shapeCases(), sdkCases(),
	)
}
