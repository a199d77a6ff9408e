//! Fuzz targets as functions, replayed over their corpora by the tests.
