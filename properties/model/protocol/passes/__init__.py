"""All states of the model of contexts and passes (model/protocol/passes), and tests of it."""
