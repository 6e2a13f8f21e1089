//! Tables for Python: Arrow's C stream interface, which Polars reads without a copy and without
//! pyarrow.

use arrow_array::builder::{ListBuilder, StringBuilder, UInt32Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;

/// A table that any Arrow consumer can read.
#[pyclass(frozen, module = "schedlab._schedlab")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// A table of batches that share `schema`.
    pub fn new(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }
}

#[pymethods]
impl Table {
    /// The Arrow PyCapsule interface. The requested schema is a wish that may be ignored.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = self.batches.clone().into_iter().map(Ok);
        let reader = RecordBatchIterator::new(batches, self.schema.clone());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Columns of one table in the making, each made from the same rows.
#[derive(Default)]
pub struct Columns {
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl Columns {
    fn add(mut self, name: &str, data_type: DataType, array: ArrayRef) -> Columns {
        self.fields.push(Field::new(name, data_type, true));
        self.arrays.push(array);
        self
    }

    pub fn u64<V: Into<Option<u64>>>(self, name: &str, values: impl Iterator<Item = V>) -> Columns {
        let array = values.map(Into::into).collect::<UInt64Array>();
        self.add(name, DataType::UInt64, Arc::new(array))
    }

    pub fn u32<V: Into<Option<u32>>>(self, name: &str, values: impl Iterator<Item = V>) -> Columns {
        let array = values.map(Into::into).collect::<UInt32Array>();
        self.add(name, DataType::UInt32, Arc::new(array))
    }

    pub fn i32<V: Into<Option<i32>>>(self, name: &str, values: impl Iterator<Item = V>) -> Columns {
        let array = values.map(Into::into).collect::<Int32Array>();
        self.add(name, DataType::Int32, Arc::new(array))
    }

    pub fn i64<V: Into<Option<i64>>>(self, name: &str, values: impl Iterator<Item = V>) -> Columns {
        let array = values.map(Into::into).collect::<Int64Array>();
        self.add(name, DataType::Int64, Arc::new(array))
    }

    pub fn f64<V: Into<Option<f64>>>(self, name: &str, values: impl Iterator<Item = V>) -> Columns {
        let array = values.map(Into::into).collect::<Float64Array>();
        self.add(name, DataType::Float64, Arc::new(array))
    }

    pub fn boolean(self, name: &str, values: impl Iterator<Item = bool>) -> Columns {
        let array = BooleanArray::from_iter(values.map(Some));
        self.add(name, DataType::Boolean, Arc::new(array))
    }

    pub fn text<'a, V: Into<Option<&'a str>>>(
        self,
        name: &str,
        values: impl Iterator<Item = V>,
    ) -> Columns {
        let array = values.map(Into::into).collect::<StringArray>();
        self.add(name, DataType::Utf8, Arc::new(array))
    }

    pub fn texts<'a, L: Iterator<Item = &'a str>>(
        self,
        name: &str,
        lists: impl Iterator<Item = L>,
    ) -> Columns {
        let mut builder = ListBuilder::new(StringBuilder::new());
        for list in lists {
            list.for_each(|text| builder.values().append_value(text));
            builder.append(true);
        }
        let element = Field::new_list_field(DataType::Utf8, true);
        self.add(name, DataType::List(Arc::new(element)), Arc::new(builder.finish()))
    }

    pub fn u32s<L: Iterator<Item = u32>>(
        self,
        name: &str,
        lists: impl Iterator<Item = L>,
    ) -> Columns {
        let mut builder = ListBuilder::new(UInt32Builder::new());
        for list in lists {
            list.for_each(|value| builder.values().append_value(value));
            builder.append(true);
        }
        let element = Field::new_list_field(DataType::UInt32, true);
        self.add(name, DataType::List(Arc::new(element)), Arc::new(builder.finish()))
    }

    pub fn table(self) -> PyResult<Table> {
        let schema = Arc::new(Schema::new(self.fields));
        let batch = RecordBatch::try_new(schema.clone(), self.arrays).map_err(refusal)?;
        Ok(Table::new(schema, vec![batch]))
    }
}

/// Columns of unequal length, which a caller of this module would have to have made.
pub fn refusal(error: ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
