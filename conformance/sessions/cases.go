package sessions

import "slices"

// cases lists every case, chapter by chapter of the specification.
func cases() []testCase {
	return slices.Concat(
		httpCases(), deviceHeaderCases(), referenceCases(),
		payloadCases(), limitCases(), roleCases(), accessCases(),
		sessionCases(), listCases(), eventCases(), controlCases(), controlListCases(),
		dispatchCases(), leaseCases(), leaseTermCases(), deviceCases(),
		shareCases(), orgCases(), auditCases(),
		streamCases(), replayCases(), socketCases(), browserCases(), slowConsumerCases(),
		presenceCases(), pushCases(), sealedCases(),
	)
}
